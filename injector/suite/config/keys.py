"""The keys of a suite's YAML: one table, from which checks, JSON Schema and docs are made."""

from __future__ import annotations

from .kinds import (
    Arguments,
    Choice,
    Condition,
    Either,
    File,
    Flag,
    Folder,
    Ignored,
    Key,
    Kind,
    List,
    Mapped,
    Number,
    Prose,
    Scalar,
    Struct,
    Text,
)
from .layers import Layers

ARCHITECTURES = ("cuda", "rocm", "xpu", "hpu", "cpu")
PLANS = ("per_gpu", "njobs")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "tune", "none")

PLAN = Struct(
    [
        Key("method", Choice(PLANS, "plan", {"per-gpu": "per_gpu"}), "per_gpu or njobs", "per_gpu"),
        Key("n", Number(1, whole=True), "njobs: how many jobs", "1"),
        Key("devices", Number(1, whole=True), "how many of the machine's devices", "all"),
        Key("launcher", Choice(LAUNCHERS, "launcher"), "njobs: what starts the ranks", "torchrun"),
        Key("pin", Flag(), "whether processes side by side are bound to their own cores", "false"),
    ]
)

ORIGIN = Struct(
    [
        Key("package", Text(), "a package of the registry, pinned: name==version"),
        Key("archive", Flag(), "whether the program is only in the source archive", "false"),
        Key("git", Text(), "URL of a git repository"),
        Key("commit", Text(), "the commit that is checked out"),
        Key("branch", Text(), "the branch that the commit is on"),
        Key("submodules", Flag(), "whether its submodules are fetched as well", "false"),
        Key(
            "into",
            Text(),
            "where beside the definition's files it lies, for scripts that expect it",
        ),
        Key("folder", Text(), "the folder inside it that the program is in"),
        Key("install", Flag(), "whether it is a package that is to be installed", "false"),
        Key("path", File(), "a folder of this machine"),
        Key("license", Prose(), "the licence of what is fetched"),
        Key("patches", List(File()), "files for git apply"),
    ]
)

VALIDATION = Layers()

BATCH = Struct(
    [
        Key("arg", Text(), "the argument that sets the batch size"),
        Key("default", Number(1, whole=True), "the batch size that the suite was written with"),
        Key("multiple", Number(1, whole=True), "sizes are multiples of this"),
        Key("power", Number(2, whole=True), "sizes are powers of this"),
    ]
)

RANGE = Struct(
    [
        Key("low", Number(), "the least value"),
        Key("high", Number(), "the greatest value"),
        Key("log", Flag(), "whether equal ratios are equally likely", "false"),
        Key("step", Number(0, above=True), "the distance of values from each other"),
        Key("n", Number(2, whole=True), "grid: so many values from low to high"),
    ],
    needs=("low", "high"),
)

SEARCH = Struct(
    [
        Key("method", Choice(("grid", "random"), "search"), "grid or random", "grid"),
        Key("space", Mapped(Either((List(Kind()), RANGE))), "names with lists or ranges of values"),
        Key("trials", Number(1, whole=True), "random: how many trials"),
        Key("seed", Number(0, whole=True), "random: the same seed, the same trials", "0"),
        Key("metric", Text(), "what is compared", "loss"),
        Key("goal", Choice(("minimize", "maximize"), "goal"), "minimize or maximize", "minimize"),
    ],
    needs=("space",),
)

_LINES = (".txt", ".in")
REQUIREMENTS = Either(
    (
        File(_LINES),
        Struct(
            [
                *(
                    Key(arch, List(File(_LINES), True), f"files for {arch}")
                    for arch in ARCHITECTURES
                ),
                Key("default", List(File(_LINES), alone=True), "files for all others"),
                Key(
                    "packages",
                    List(Text(), alone=True),
                    "packages, as a requirements file has them",
                ),
            ],
        ),
    )
)

PREPARE = Either(
    (
        File((".py", ".sh")),
        List(Text()),
        Struct(
            [
                Key("script", File((".py", ".sh")), "what is run"),
                Key("argv", Arguments(), "its arguments"),
                Key("with_argv", Flag(), "whether the program's arguments follow", "false"),
                Key("env", Mapped(Scalar()), "its environment variables"),
                Key(
                    "data",
                    Text(),
                    "the folder below BASE/data that it fills; . is BASE/data itself",
                ),
                Key(
                    "in_place",
                    Flag(),
                    "whether that folder must not be moved once it is filled",
                    "false",
                ),
            ]
        ),
    )
)

WORDS = Either((Text(), List(Text())))

_COMMON = (
    Key("description", Prose(), "what it is, for people"),
    Key("enabled", Flag(), "whether it runs", "true"),
    Key("group", Text(), "what shares BASE/extra", "its name"),
    Key("install_group", Text(), "what shares an environment", "its group"),
    Key("tags", List(Text()), "words to select it by; inherited ones are added"),
    Key("weight", Number(0), "what it counts in the suite's score", "1"),
    Key("max_duration", Number(0, above=True), "seconds after which it is ended", "600"),
    Key("plan", PLAN, "how processes are started on devices"),
    Key("run", WORDS, "script.py, -m module, or a command"),
    Key("argv", Arguments(), "the program's arguments"),
    Key("env", Mapped(Scalar()), "environment variables"),
    Key("folder", Text(), "the folder that it runs in"),
    Key(
        "voirfile",
        List(File((".py",)), alone=True),
        "what probes it: files, or names of shipped ones",
    ),
    Key(
        "voir",
        Struct([Key("options", Mapped(), "options of inject run and of voirfiles")]),
        "see options",
    ),
    Key("origin", ORIGIN, "where the program comes from"),
    Key("requirements", REQUIREMENTS, "a requirements file, or one for each architecture"),
    Key("prepare", PREPARE, "what makes its data"),
    Key("validation", VALIDATION, "what must hold for a run to count"),
    Key("batch", BATCH, "how its batch size may be changed"),
    Key("requires_capabilities", List(Condition()), "conditions that the machine must meet"),
    Key("num_machines", Number(1, whole=True), "machines that it needs", "1"),
    Key("only_probed", Prose(), "why it cannot run without its voirfile"),
    Key("url", List(Prose(), alone=True), "where to read about it"),
)

_MILABENCH = (
    Key("client", Struct([Key("argv", Arguments(), "its arguments")]), "arguments after --"),
    Key("server", Struct([Key("argv", Arguments(), "its arguments")]), "arguments before --"),
    Key("accelerate", Ignored(), "not acted on"),
    Key("use_deepspeed", Ignored(), "not acted on"),
    Key("docker_image", Ignored(), "not acted on"),
    Key("install_variant", Ignored(), "not acted on: the architecture decides"),
    Key("capabilities", Ignored(), "not acted on"),
    Key("dirs", Ignored(), "not acted on: --base decides"),
    Key("pip", Ignored(), "not acted on"),
    Key("venv", Ignored(), "not acted on"),
    Key("system", Ignored(), "not acted on here: it is a name of the top"),
    Key("config_base", Ignored(), "not acted on"),
    Key("config_file", Ignored(), "not acted on"),
    Key("run_name", Ignored(), "not acted on"),
    Key("tag", Ignored(), "not acted on"),
)

_FORMING = (
    Key("inherits", List(Text(), alone=True), "entries whose keys hold where it says nothing else"),
    Key("definition", Folder(), "a folder with benchmark.yaml, or the name of a shipped one"),
    Key("name", Text(), "a template for the names of several"),
    Key("search", SEARCH, "a study: one benchmark for each trial"),
)

WHEN = Mapped(Struct(_COMMON + _MILABENCH), Condition())
JOB = Struct(
    _FORMING + _COMMON + _MILABENCH + (Key("when", WHEN, "conditions, and what they set"),)
)
_MULTIPLYING = (
    Key("matrix", Mapped(), "names with lists of values: one benchmark for each combination"),
    Key("exclude", List(Either((Mapped(), Condition()))), "combinations that are left out"),
    Key("job", JOB, "the benchmark that a matrix multiplies"),
)
ENTRY = Struct((*JOB.keys, *_MULTIPLYING))
DEFINITION = Struct(_COMMON + _MILABENCH + (Key("when", WHEN, "conditions, and what they set"),))
"""A definition's own benchmark.yaml: it says what it is, not what a suite makes of it."""

NOT_ACTED_ON = tuple(key.name for key in _MILABENCH if key.text.startswith("not acted on"))

TOP = (
    Key("include", List(Text(), alone=True), "other files, which this one is laid over"),
    Key("variables", Mapped(), "names that -P sets and -V sweeps"),
    Key("system", Mapped(), "nodes and options of the machines"),
    Key("multirun", Ignored(), "milabench's sweeps of options: not acted on"),
)
"""What a file says besides benchmarks."""
