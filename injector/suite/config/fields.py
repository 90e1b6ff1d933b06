"""The kinds of values that keys take: types by which pydantic checks them and writes JSON Schema.

A text with placeholders may stand for a value of nearly every kind. What pydantic returns has the shape
of what it was given, with a :class:`.Template` for each such text and an :class:`.Expression` for each
condition; that is how templates are found. Nothing else of what it returns is used.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StrictBool,
    Tag,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from .expressions import Expression, compiled, read_number
from .problems import kind, meant
from .templates import template

T = TypeVar("T")
Finding = tuple[tuple[str | int, ...], str]
"""Where below a value something is wrong, and what."""

TEMPLATE = {"type": "string", "pattern": r"\{|^(auto|auto_batch|expr)\("}


class Map(BaseModel):
    """A map with known keys."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def without_null(cls, value: Any) -> Any:
        """Null takes a key away."""
        if not isinstance(value, dict) or None not in value.values():
            return value
        known = cls.model_fields
        return {k: each for k, each in value.items() if each is not None or k not in known}


def key(text: str, default: Any = None, needed: bool = False) -> Any:
    """What a key means, and the value that holds without it."""
    extra = {} if default is None else {"default": default}
    return Field(... if needed else None, description=text, json_schema_extra=extra)


# --- texts --------------------------------------------------------------------------------------------


class _OrTemplate:
    """Adds a text with placeholders to a JSON Schema."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [handler(core), TEMPLATE]}


def _template_or(value: Any, handler: Any, info: ValidationInfo) -> Any:
    """The template that a text is; else, and where placeholders are resolved already, the value."""
    resolved = (info.context or {}).get("resolved", False)
    if resolved or not isinstance(value, str) or not ("{" in value or "(" in value):
        return handler(value)
    found = template(value)
    if not found.constant:
        return found
    handler(value)
    return value if found.parts == (value,) else found  # braces that are doubled


Templated = Annotated[T, WrapValidator(_template_or), _OrTemplate()]
"""What a text with placeholders may stand for."""


def _plain(wanted: str, *types: type) -> Any:
    def check(value: Any) -> Any:
        if value is None or isinstance(value, types):
            raise ValueError(should(wanted, value))
        return value

    return check


_TEXT = {"type": ["string", "number"]}
_SCALAR = {"type": ["string", "number", "boolean"]}
Prose = Annotated[Any, PlainValidator(_plain("a text", dict, list, bool)), WithJsonSchema(_TEXT)]
"""For people: braces are braces."""
Text = Annotated[Prose, WrapValidator(_template_or)]


def _command_line(value: Any) -> Any:
    try:
        shlex.split(str(value))
    except ValueError as error:  # a quote or a backslash at its end
        raise ValueError(f"is no command line: {str(error).lower()} in {value}") from None
    return value


CommandLine = Annotated[Prose, AfterValidator(_command_line), WrapValidator(_template_or)]
"""Words as a shell divides them."""


def _name_of_value(value: Any) -> Any:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ValueError(should("the name of a value or of a figure", value))
    return value


Metric = Annotated[
    Any,
    PlainValidator(_name_of_value),
    WrapValidator(_template_or),
    WithJsonSchema({"type": "string", "pattern": r"\S"}),
]
"""What a program, a voirfile or a report calls a number."""
Scalar = Annotated[
    Any,
    PlainValidator(_plain("one value", dict, list)),
    WrapValidator(_template_or),
    WithJsonSchema(_SCALAR),
]


def _expression(value: Any) -> Expression:
    if not isinstance(value, (str, bool)):
        raise ValueError(should("a condition", value))
    return compiled(str(value))


Condition = Annotated[
    Any, PlainValidator(_expression), WithJsonSchema({"type": ["string", "boolean"]})
]
"""An expression, without braces around it."""


def _variable(name: str) -> str:
    if not name or "=" in name:
        raise ValueError(f"{name!r} is no name of a variable: it has a character, and no =")
    return name


Variables = dict[Annotated[str, AfterValidator(_variable)], Scalar | None]
"""Of an environment."""


def _folder(value: Any) -> Any:
    if isinstance(value, dict) and "git" in value:  # milabench's way
        raise ValueError(
            "a definition is not fetched: clone the repository and name its folder here"
        )
    return value


Folder = Annotated[Text, BeforeValidator(_folder)]


def _anything(value: Any, info: ValidationInfo) -> Any:
    return _template_or(value, any_templates, info)


def any_templates(value: Any) -> Any:
    """A value in whose depths texts may be templates; those that cannot be read are texts."""
    if isinstance(value, str) and ("{" in value or "(" in value):
        try:
            found = template(value)
        except ValueError:
            return value
        return value if found.parts == (value,) else found
    if isinstance(value, dict):
        return {name: any_templates(each) for name, each in value.items()}
    return [any_templates(each) for each in value] if isinstance(value, list) else value


Anything = Annotated[Any, PlainValidator(_anything), WithJsonSchema({})]
Ignored = Annotated[Any, WithJsonSchema({})]
"""Not acted on, so it may be anything."""

# --- numbers ------------------------------------------------------------------------------------------


def _number(wanted: str) -> BeforeValidator:
    """Takes numbers, also those that YAML 1.1 takes for a text: 1e-4."""

    def read(value: Any) -> Any:
        found = read_number(value) if isinstance(value, str) else value
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise ValueError(should(wanted, value))
        return found

    return BeforeValidator(read)


_LEAST0, _ABOVE0 = _number("a number of at least 0"), _number("a number above 0")
_WHOLE, _COUNT = _number("a whole number"), _number("a whole number of at least 1")
Flag = Templated[StrictBool]
Number = Templated[Annotated[float, Field(allow_inf_nan=False), _number("a number")]]
NotNegative = Templated[Annotated[float, Field(ge=0, allow_inf_nan=False), _LEAST0]]
Positive = Templated[Annotated[float, Field(gt=0, allow_inf_nan=False), _ABOVE0]]
Fraction = Templated[Annotated[float, Field(ge=0, le=1), _number("a number from 0 to 1")]]
Whole = Templated[Annotated[int, Field(ge=0), _WHOLE]]
Count = Templated[Annotated[int, Field(ge=1), _COUNT]]
Several = Templated[Annotated[int, Field(ge=2), _WHOLE]]

# --- lists, and what may have several forms -----------------------------------------------------------

ONE, LIST, MAP, APPEND = "\0one", "\0list", "\0map", "\0append"
"""The forms of a value. pydantic names them in an error's place, between keys: no key can be one."""


def form(value: Any) -> str:
    """Which form a value has."""
    return LIST if isinstance(value, list) else MAP if isinstance(value, dict) else ONE


def _form_of_list(value: Any) -> str:
    return APPEND if isinstance(value, dict) and list(value) == ["append"] else form(value)


def either(wanted: str, which: Any = form) -> Discriminator:
    """Chooses between types by a value's form; ``wanted``: what they are, in words."""
    return Discriminator(which, custom_error_type="form", custom_error_message=wanted)


_LIST = Annotated[list[T], Tag(LIST)]
_APPEND = Annotated[dict[Literal["append"], list[T]], Tag(APPEND)]
"""Adds to a list that is inherited."""
Listed = Templated[Annotated[_LIST[T] | _APPEND[T], either("a list", _form_of_list)]]
OneOrMore = Annotated[
    Annotated[T, Tag(ONE)] | _LIST[T] | _APPEND[T],
    either("a text or a list", _form_of_list),
]


def _no_false(value: Any) -> Any:
    if value is False:
        raise ValueError("false is no argument: null drops it, 'false' in quotes is the word")
    return value


_ARGUMENT = {"anyOf": [_TEXT, {"const": True}, {"type": "array", "items": _SCALAR}]}
Argument = Annotated[
    Annotated[Scalar, Tag(ONE)] | Annotated[list[Scalar], Tag(LIST)],
    either("one value or a list"),
    BeforeValidator(_no_false),
    WithJsonSchema(_ARGUMENT),
]
Arguments = Annotated[
    Annotated[list[Scalar], Tag(LIST)] | Annotated[dict[Templated[str], Argument | None], Tag(MAP)],
    either("a map of options or a list"),
]

# --- what is wrong ------------------------------------------------------------------------------------

_WANTED = {
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
}


def should(wanted: str, value: Any) -> str:
    """A sentence: what belongs where ``value`` stands."""
    text = f"should be {wanted}, not {kind(value)}"
    if isinstance(value, dict) and len(value) == 1 and list(value.values()) == [None]:
        text += f"; a placeholder has quotes around it: '{{{next(iter(value))}}}'"
    return text


def findings(error: ValidationError, model: type[BaseModel]) -> Iterator[Finding]:
    """What pydantic found, in our words: where, what, and what would be right."""
    for each in error.errors(include_url=False):
        path = tuple(part for part in each["loc"] if part not in (ONE, LIST, MAP, APPEND, "[key]"))
        sort, context = each["type"], each.get("ctx", {})
        if sort == "value_error":
            yield path, str(context["error"])
        elif sort == "extra_forbidden":
            yield path, f"unknown key {path[-1]}{meant(str(path[-1]), _fields(model, path))}"
        elif sort == "missing":
            known = _fields(model, path)[str(path[-1])]
            yield path[:-1], f"{path[-1]} is missing: {known.description}"
        elif sort == "too_short":
            yield path, "the list is empty"
        elif sort == "literal_error":
            words = re.findall(r"'([^']+)'", context["expected"])
            text = should(f"one of {', '.join(words)}", each["input"])
            near = meant(str(each["input"]), words)
            yield path, text + (near if "did you" in near else "")
        else:
            wanted = each["msg"].removeprefix("Input should be ")
            wanted = f"a number {wanted}" if "than" in sort else wanted
            yield path, should(_WANTED.get(sort, wanted), each["input"])


def _fields(model: type[BaseModel], path: tuple[Any, ...]) -> Mapping[str, Any]:
    """The keys that are known where the last of ``path`` stands."""
    for name in path[:-1]:
        if name in model.model_fields:
            model = next(_models(model.model_fields[name].annotation), model)
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, Map):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
