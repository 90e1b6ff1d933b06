"""The kinds of values that keys take: types by which pydantic checks them and writes JSON Schema.

A text with placeholders may stand for a value of nearly every kind. What pydantic returns has the shape of
what it was given, but with a :class:`.Template` for each such text and an :class:`.Expression` for each
condition. These are all that is used of it.
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

from .expressions import Expression, compiled
from .functions import read_number
from .problems import kind, meant
from .templates import template

T = TypeVar("T")
Finding = tuple[tuple[str | int, ...], str]
"""The place of a mistake, relative to the value that is checked, and what is wrong."""

TEMPLATE = {"type": "string", "pattern": r"\{|^(auto|auto_batch|expr)\("}


class Map(BaseModel):
    """A map with known keys."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def without_null(cls, value: Any) -> Any:
        """``value`` without the known keys that are null: they are as if they were not there."""
        if not isinstance(value, dict) or None not in value.values():
            return value
        known = cls.model_fields
        return {key: item for key, item in value.items() if item is not None or key not in known}


def key(text: str, default: Any = None, needed: bool = False) -> Any:
    """The field of a key: what it means, and what holds without it, unless it is needed."""
    extra = {} if default is None else {"default": default}
    return Field(... if needed else None, description=text, json_schema_extra=extra)


# --- texts --------------------------------------------------------------------------------------------


class _OrTemplate:
    """Adds a text with placeholders to a JSON Schema."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [handler(core), TEMPLATE]}


def _template_or(value: Any, handler: Any, info: ValidationInfo) -> Any:
    """The template that ``value`` is, if it is one, else what ``handler`` makes of it.

    In a context with ``resolved``, placeholders have their values already, and braces are braces.
    """
    resolved = (info.context or {}).get("resolved", False)
    if resolved or not isinstance(value, str) or not ("{" in value or "(" in value):
        return handler(value)
    parsed = template(value)
    if not parsed.constant:
        return parsed
    handler(value)
    # A text without placeholders may still have doubled braces, which stand for single ones.
    return value if parsed.parts == (value,) else parsed


Templated = Annotated[T, WrapValidator(_template_or), _OrTemplate()]
"""A value of type T, or a text with placeholders."""


def _none_of(wanted: str, *types: type) -> Any:
    """A validator that refuses null and values of ``types``; ``wanted`` names what is right."""

    def check(value: Any) -> Any:
        if value is None or isinstance(value, types):
            raise ValueError(should(wanted, value))
        return value

    return check


_TEXT = {"type": ["string", "number"]}
_SCALAR = {"type": ["string", "number", "boolean"]}
Prose = Annotated[Any, PlainValidator(_none_of("a text", dict, list, bool)), WithJsonSchema(_TEXT)]
"""A text for people: braces in it are no placeholders."""
Text = Annotated[Prose, WrapValidator(_template_or)]


def _command_line(value: Any) -> Any:
    try:
        shlex.split(str(value))
    except ValueError as error:  # an open quote, or a backslash at the end
        raise ValueError(f"is no command line: {str(error).lower()} in {value}") from None
    return value


CommandLine = Annotated[Prose, AfterValidator(_command_line), WrapValidator(_template_or)]
"""A text that is divided into words as in a shell."""


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
"""The name of a number that a program or a voirfile records, or a report has."""
Scalar = Annotated[
    Any,
    PlainValidator(_none_of("one value", dict, list)),
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


def _folder(value: Any) -> Any:
    if isinstance(value, dict) and "git" in value:  # as milabench writes it
        raise ValueError(
            "a definition is not fetched: clone the repository and name its folder here"
        )
    return value


Folder = Annotated[Text, BeforeValidator(_folder)]


def any_templates(value: Any) -> Any:
    """``value`` with a template for each text in it that is one; a text that is no valid one stays a text."""
    if isinstance(value, str) and ("{" in value or "(" in value):
        try:
            parsed = template(value)
        except ValueError:
            return value
        return value if parsed.parts == (value,) else parsed
    if isinstance(value, dict):
        return {name: any_templates(item) for name, item in value.items()}
    return [any_templates(item) for item in value] if isinstance(value, list) else value


Anything = Annotated[
    Any,
    PlainValidator(lambda value, info: _template_or(value, any_templates, info)),
    WithJsonSchema({}),
]
"""Any value, with templates anywhere in it."""
Ignored = Annotated[Any, WithJsonSchema({})]
"""The value of a key that is known and has no effect."""

# --- numbers ------------------------------------------------------------------------------------------


def _number(wanted: str) -> BeforeValidator:
    """A validator that refuses what is no number, and reads texts that are one: YAML 1.1 has 1e-4 as text."""

    def read(value: Any) -> Any:
        as_number = read_number(value) if isinstance(value, str) else value
        if isinstance(as_number, bool) or not isinstance(as_number, (int, float)):
            raise ValueError(should(wanted, value))
        return as_number

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
"""The forms of a value. pydantic has them in the places of errors, between keys; they are equal to no key."""


def form(value: Any) -> str:
    """The form of ``value``."""
    return LIST if isinstance(value, list) else MAP if isinstance(value, dict) else ONE


def _form_of_list(value: Any) -> str:
    return APPEND if isinstance(value, dict) and list(value) == ["append"] else form(value)


def either(wanted: str, which: Any = form) -> Discriminator:
    """What chooses between types by a value's form; ``wanted`` names all of them in words."""
    return Discriminator(which, custom_error_type="form", custom_error_message=wanted)


_LIST = Annotated[list[T], Tag(LIST)]
_APPEND = Annotated[dict[Literal["append"], list[T]], Tag(APPEND)]
"""Items to add to the list that is inherited."""
Listed = Templated[Annotated[_LIST[T] | _APPEND[T], either("a list", _form_of_list)]]
OneOrMore = Annotated[
    Annotated[T, Tag(ONE)] | _LIST[T] | _APPEND[T], either("a text or a list", _form_of_list)
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
    """A sentence that ``wanted`` belongs where ``value`` stands."""
    text = f"should be {wanted}, not {kind(value)}"
    if isinstance(value, dict) and len(value) == 1 and list(value.values()) == [None]:
        text += f"; a placeholder has quotes around it: '{{{next(iter(value))}}}'"
    return text


def findings(error: ValidationError, model: type[BaseModel], partial: bool) -> Iterator[Finding]:
    """What pydantic found, in our words: the place, what is wrong, and what would be right.

    With ``partial`` nothing counts as missing.
    """
    for detail in error.errors(include_url=False):
        path = tuple(
            part for part in detail["loc"] if part not in (ONE, LIST, MAP, APPEND, "[key]")
        )
        sort, context = detail["type"], detail.get("ctx", {})
        if sort == "value_error":
            yield path, str(context["error"])
        elif sort == "extra_forbidden":
            yield path, f"unknown key {path[-1]}{meant(str(path[-1]), _fields(model, path))}"
        elif sort == "missing" and partial:
            continue
        elif sort == "missing":
            known = _fields(model, path)[str(path[-1])]
            yield path[:-1], f"{path[-1]} is missing: {known.description}"
        elif sort == "too_short":
            yield path, "the list is empty"
        elif sort == "literal_error":
            words = re.findall(r"'([^']+)'", context["expected"])
            text = should(f"one of {', '.join(words)}", detail["input"])
            near = meant(str(detail["input"]), words)
            yield path, text + (near if "did you" in near else "")
        else:
            wanted = detail["msg"].removeprefix("Input should be ")
            wanted = f"a number {wanted}" if "than" in sort else wanted
            yield path, should(_WANTED.get(sort, wanted), detail["input"])


def _fields(model: type[BaseModel], path: tuple[Any, ...]) -> Mapping[str, Any]:
    """The known keys of the map that has the last key of ``path``."""
    for name in path[:-1]:
        if name in model.model_fields:
            model = next(_models(model.model_fields[name].annotation), model)
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The maps in the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, Map):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
