"""The keys of a suite's YAML as pydantic models, from which checks, JSON Schema and docs/suites.md come.

A class is a map of the YAML, a field a key of it, with its description and default. The docstrings of classes
are descriptions in the schema. The types of fields are in :mod:`.fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Tag, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from .fields import (
    LIST,
    MAP,
    ONE,
    Anything,
    Arguments,
    CommandLine,
    Condition,
    Count,
    Finding,
    Flag,
    Folder,
    Fraction,
    Ignored,
    Listed,
    Map,
    Metric,
    NotNegative,
    Number,
    OneOrMore,
    Positive,
    Prose,
    Scalar,
    Several,
    Templated,
    Text,
    Variables,
    Whole,
    either,
    findings,
    key,
)
from .functions import read_numbers
from .rules import RULES

_Devices = Annotated[
    Annotated[Count, Tag(ONE)] | Annotated[list[Whole], Tag(LIST)],
    either("a number of devices or a list of their numbers"),
    BeforeValidator(read_numbers),
]


class PlanKeys(Map):
    """``plan``."""

    method: Templated[Literal["per_gpu", "njobs", "per-gpu"]] = key("per_gpu or njobs", "per_gpu")
    n: Count = key("njobs: how many jobs", 1)
    devices: Templated[_Devices] = key(
        "how many of the machine's devices, or the numbers of particular ones: [0, 2] or '0,2'; of none, [], "
        "the processor",
        "{gpu_count}",
    )
    launcher: CommandLine = key(
        "njobs: what starts the ranks: torchrun, accelerate, deepspeed, tune, none, or a whole command",
        "torchrun",
    )
    pin: Flag = key("whether processes side by side are bound to their own cores", False)


class OriginKeys(Map):
    """``origin``."""

    package: Text = key("a package of the registry, pinned: name==version")
    archive: Scalar = key(
        "package: whether the program is only in the source archive; git: an archive of the commit",
        False,
    )
    git: Text = key("URL of a git repository")
    commit: Text = key("the commit that is checked out")
    branch: Text = key("the branch that the commit is on")
    only: Listed[Text] = key("the folders of the repository that are fetched; by default all")
    submodules: Flag = key("whether its submodules are fetched as well", False)
    into: Text = key("its folder beside the definition's files, for scripts that expect it")
    folder: Text = key("the folder inside it that the program is in")
    install: Flag = key("whether it is a package that is to be installed", False)
    path: Text = key("a folder of this machine")
    license: Prose = key("the licence of what is fetched")
    patches: Listed[Text] = key("files for git apply")


class BatchKeys(Map):
    """``batch``."""

    arg: Text = key("the argument that sets the batch size")
    default: Count = key("the batch size that the suite was written with")
    multiple: Count = key("sizes are multiples of this")
    power: Several = key("sizes are powers of this")


class RangeKeys(Map):
    """A range of ``search.space``."""

    low: Number = key("the least value", needed=True)
    high: Number = key("the greatest value", needed=True)
    log: Flag = key("whether equal ratios are equally likely", False)
    step: Positive = key("the distance of values from each other")
    n: Several = key("grid: the number of values from low to high")


_Axis = Annotated[
    Annotated[list[Anything], Tag(LIST)] | Annotated[RangeKeys, Tag(MAP)],
    either("a list or a range"),
]


class SearchKeys(Map):
    """``search``."""

    method: Templated[Literal["grid", "random"]] = key("grid or random", "grid")
    space: dict[str, Templated[_Axis]] = key("names with lists or ranges of values", needed=True)
    trials: Count = key("random: how many trials")
    seed: Whole = key("random: the same seed, the same trials", 0)
    metric: Metric = key("what is compared", "loss")
    goal: Templated[Literal["minimize", "maximize"]] = key("minimize or maximize", "minimize")


class RequirementKeys(Map):
    """``requirements``."""

    cuda: OneOrMore[Text] = key("files for cuda")
    rocm: OneOrMore[Text] = key("files for rocm")
    xpu: OneOrMore[Text] = key("files for xpu")
    hpu: OneOrMore[Text] = key("files for hpu")
    cpu: OneOrMore[Text] = key("files for cpu")
    default: OneOrMore[Text] = key("files for all others")
    packages: OneOrMore[Text] = key("packages, as a requirements file has them")


class PrepareKeys(Map):
    """``prepare``."""

    script: Text = key("what is run")
    argv: Arguments = key("its arguments")
    with_argv: Flag = key("whether the program's arguments follow", False)
    env: Variables = key("its environment variables")
    data: Text = key("the folder below BASE/data that it fills; . is BASE/data itself")
    in_place: Flag = key("whether that folder must not be moved once it is filled", False)


class VoirKeys(Map):
    """``voir``."""

    options: dict[str, Anything | None] = key("options of inject run and of voirfiles")


class ArgvKeys(Map):
    """``client``, ``server``."""

    argv: Arguments = key("its arguments")


# The keys of ``validation`` are made from the rules, so that a layer of validation is declared once.
_FlagOrWarn = Templated[Literal[True, False, "warn"]]
_Severity = Templated[Literal["failure", "warning"]]
_Names = Listed[Text]
_Table = dict[str, Anything]
_KINDS: Mapping[str, Any] = {
    "flag": Flag,
    "flag|warn": _FlagOrWarn,
    "failure|warning": _Severity,
    "number": NotNegative,
    "fraction": Fraction,
    "count": Whole,
    "words": _Names,
    "table": _Table,
    "text": Text,
}


def _layer(name: str) -> Any:
    """The type and the key of one layer of validation: a flag, or a map of its thresholds."""
    fields: dict[str, Any] = {
        threshold: (_KINDS[rule.kind], key(rule.text, rule.default))
        for threshold, rule in RULES[name].items()
    }
    fields["enabled"] = (Flag, key("false switches the layer off"))
    model = create_model(f"{name.capitalize()}Keys", __base__=Map, **fields)
    tagged = Annotated[Flag, Tag(ONE)] | Annotated[model, Tag(MAP)]  # type: ignore[valid-type]
    wanted = either("true, false or a map of its thresholds")
    return (Annotated[tagged, wanted], key(f"see docs/scores.md: {name}"))


_layers: dict[str, Any] = {name: _layer(name) for name in RULES}
ValidationKeys = create_model("ValidationKeys", __base__=Map, **_layers)

_Requirements = Annotated[
    Annotated[Text, Tag(ONE)] | Annotated[RequirementKeys, Tag(MAP)],
    either("a file or a map of files"),
]
_Words = Annotated[
    Annotated[CommandLine, Tag(ONE)] | Annotated[list[Text], Tag(LIST)], either("a text or a list")
]
_Prepare = Annotated[
    Annotated[Text, Tag(ONE)] | Annotated[list[Text], Tag(LIST)] | Annotated[PrepareKeys, Tag(MAP)],
    either("a file, a list or a map"),
]
_Exclusion = Annotated[
    Annotated[Condition, Tag(ONE)] | Annotated[dict[str, Anything | None], Tag(MAP)],
    either("a combination or a condition"),
]


class SettingKeys(Map):
    """What a condition can set."""

    description: Prose = key("a description, for readers")
    enabled: Flag = key("whether it runs", True)
    group: Text = key("what shares BASE/extra", "{name}")
    install_group: Text = key("what shares an environment", "{group}")
    tags: Listed[Text] = key("words to select it by; inherited ones are added")
    weight: NotNegative = key("its weight in the suite's score", 1)
    max_duration: Positive = key("seconds after which it is ended", 600)
    plan: PlanKeys = key("how processes are started on devices")
    run: _Words = key("script.py, -m module, or a command")
    argv: Arguments = key("the program's arguments")
    env: Variables = key("environment variables")
    folder: Text = key("the folder that it runs in, relative to the file that says so")
    voirfile: OneOrMore[Text] = key("what probes it: files, or names of shipped ones")
    voir: VoirKeys = key("options of inject run and of voirfiles, under options")
    origin: OriginKeys = key("where the program comes from")
    requirements: _Requirements = key("a requirements file, or one for each architecture")
    prepare: _Prepare = key("what makes its data")
    validation: ValidationKeys = key(  # type: ignore[valid-type]
        "what must hold for a run to count"
    )
    batch: BatchKeys = key("how its batch size may be changed")
    requires_capabilities: Listed[Condition] = key("conditions that the machine must meet")
    num_machines: Count = key("machines that it needs", 1)
    only_probed: Prose = key("why it cannot run without its voirfile")
    url: OneOrMore[Prose] = key("where to read about it")
    client: ArgvKeys = key("arguments after --")
    server: ArgvKeys = key("arguments before --")
    accelerate: Ignored = key("not acted on")
    use_deepspeed: Ignored = key("not acted on")
    docker_image: Text = key(
        "the image of the container that it runs in, or its Dockerfile; else that of system"
    )
    container_engine: Templated[Literal["docker", "podman", "apptainer", "none"]] = key(
        "docker, podman, apptainer or none: what runs its container; else that of system, or the first found"
    )
    install_variant: Ignored = key("not acted on: the architecture decides")
    capabilities: Ignored = key("not acted on")
    dirs: Ignored = key("not acted on: --base decides")
    pip: Ignored = key("not acted on")
    venv: Ignored = key("not acted on")
    system: Ignored = key("not acted on here: it is a name of the top")
    config_base: Ignored = key("not acted on")
    config_file: Ignored = key("not acted on")
    run_name: Ignored = key("not acted on")
    tag: Ignored = key("not acted on")


class DefinitionKeys(SettingKeys):
    """A definition's benchmark.yaml: what it is, not which benchmarks a suite makes of it."""

    when: dict[Condition, SettingKeys | None] = key("conditions, and what they set")


class _FormingKeys(Map):
    inherits: OneOrMore[Text] = key(
        "entries whose keys hold where this one has no value of its own"
    )
    definition: Folder = key("a folder with benchmark.yaml, or the name of a shipped one")
    name: Text = key("a template for the names of several")
    search: SearchKeys = key("a study: one benchmark for each trial")


class JobKeys(DefinitionKeys, _FormingKeys):
    """A benchmark."""


class EntryKeys(JobKeys):
    """A benchmark, or several of a kind."""

    matrix: dict[str, Anything | None] = key(
        "names with lists of values: one benchmark for each combination"
    )
    exclude: Listed[_Exclusion] = key("combinations that are left out")
    job: JobKeys = key("the benchmark that a matrix multiplies")


class TopKeys(Map):
    """What a file has besides benchmarks."""

    include: OneOrMore[Text] = key("other files, which this one is laid over")
    variables: dict[str, Anything | None] = key("names that -P sets and -V sweeps")
    system: dict[str, Anything | None] = key("nodes and options of the machines")
    multirun: Ignored = key("milabench's sweeps of options: not acted on")


TOP = tuple(TopKeys.model_fields)


def parse(
    data: Any,
    model: type[BaseModel] = EntryKeys,
    resolved: bool = False,
    partial: bool = False,
) -> tuple[Any, list[Finding]]:
    """Check ``data``, and return it with a Template or an Expression for each text that is one.

    Returns what is wrong as well; that is left out of the first, or all of it is None. With ``resolved``, no
    text is a template any more. With ``partial``, another layer may have what is missing.
    """
    problems: list[Finding] = []
    context = {"resolved": resolved}
    # pydantic returns nothing for data with a mistake. But the templates of all other keys are needed, so
    # that mistakes in these are found as well: what is wrong is taken out, and the rest is checked again.
    for attempt in range(3):
        try:
            return model.model_validate(data, context=context), problems
        except ValidationError as error:
            wrong = list(findings(error, model, partial))
        # A mistake of the second attempt only follows from what was taken out, such as a missing key.
        problems += wrong if attempt == 0 else ()
        for path, _ in wrong:
            data = _without(data, path if attempt == 0 else path[:1])
    return None, problems


def _without(data: Any, path: tuple[Any, ...]) -> Any:
    """``data`` without what is at ``path``; in a list an empty text stands there, to keep the positions."""
    if not path:
        return None
    if isinstance(data, dict) and path[0] in data:
        inner = _without(data[path[0]], path[1:])
        rest = {name: value for name, value in data.items() if name != path[0]}
        return rest if len(path) == 1 else {**data, path[0]: inner}
    if isinstance(data, list) and isinstance(path[0], int) and path[0] < len(data):
        inner = "" if len(path) == 1 else _without(data[path[0]], path[1:])
        return [*data[: path[0]], inner, *data[path[0] + 1 :]]
    return data


def problems(
    data: Any, model: type[BaseModel] = EntryKeys, resolved: bool = False
) -> list[Finding]:
    """What is wrong with the keys of one layer; nothing if it is null, which takes an entry away."""
    return [] if data is None else parse(data, model, resolved, partial=True)[1]


# --- JSON Schema --------------------------------------------------------------------------------------


class _Generator(GenerateJsonSchema):
    """Leaves out what an editor has no use for: a title for each key, null as default."""

    def model_field_schema(self, schema: Any) -> Any:
        # Null is right for any key: it takes an inherited value away.
        return {"anyOf": [super().model_field_schema(schema), {"type": "null"}]}

    def default_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema() -> dict[str, Any]:
    """See :func:`injector.suite.config.schema`."""
    _, made = models_json_schema(
        [(TopKeys, "validation"), (EntryKeys, "validation")], schema_generator=_Generator
    )
    definitions = made["$defs"]
    top = definitions.pop("TopKeys")
    benchmark = {"anyOf": [{"$ref": "#/$defs/EntryKeys"}, {"type": "null"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a suite of inject",
        "type": "object",
        "properties": top["properties"],
        "patternProperties": {"^_": benchmark},
        "additionalProperties": benchmark,
        "$defs": definitions,
    }
