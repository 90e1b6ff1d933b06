"""Dataclasses as groups of options."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import typing
from typing import Any


def declare_fields(
    group: Any, kind: type, *, prefix: str, defaults: Any, given: dict[str, Any]
) -> dict[str, str]:
    """Add an option for each field of the dataclass ``kind`` to ``group``.

    ``defaults`` is an instance whose values stand in for the fields' defaults, ``given`` what a
    configuration file says. Returns for each field the attribute of the namespace it is parsed into.
    """
    hints = typing.get_type_hints(kind)
    helps = _comments(kind)
    fields = {}
    for field in dataclasses.fields(kind):
        default = _default(field, defaults, given)
        dest = f"{prefix or kind.__name__ + '.'}{field.name}"
        _declare(
            group, prefix + field.name, dest, hints[field.name], default, helps.get(field.name)
        )
        fields[field.name] = dest
    return fields


def _default(field: dataclasses.Field[Any], defaults: Any, given: dict[str, Any]) -> Any:
    if field.name in given:
        return given[field.name]
    if defaults is not None:
        return getattr(defaults, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _declare(group: Any, name: str, dest: str, hint: Any, default: Any, text: str | None) -> None:
    flag = name.replace("_", "-")
    dashes = "--" if len(flag) > 1 else "-"
    required = default is dataclasses.MISSING
    settings: dict[str, Any] = {"dest": dest, "help": text, "required": required}
    if not required:
        settings["default"] = default
    kind = _scalar(hint)
    if kind is bool:
        head, _, last = flag.rpartition(".")
        negative = f"--{head}{'.' if head else ''}no-{last}"
        group.add_argument(dashes + flag, action="store_true", **settings)
        settings.update(required=False, help=None if text is None else argparse.SUPPRESS)
        group.add_argument(negative, action="store_false", **settings)
        return
    group.add_argument(
        dashes + flag, type=kind, metavar=name.rpartition(".")[2].upper(), **settings
    )


def _scalar(hint: Any) -> Any:
    """What parses a value for an annotation: the type itself, or that of ``X | None``."""
    arguments = [a for a in typing.get_args(hint) if a is not type(None)]
    if arguments and typing.get_origin(hint) not in (list, tuple, dict, set):
        return _scalar(arguments[0])
    return hint if callable(hint) else str


def _comments(kind: type) -> dict[str, str]:
    """What the source says of each field: the comment above it or behind it, or the string below."""
    import inspect
    import textwrap

    try:
        source = textwrap.dedent(inspect.getsource(kind))
        body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError, AttributeError, IndexError):
        return {}
    lines = source.splitlines()
    texts: dict[str, str] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            texts[statement.target.id] = _text_at(lines, statement, following)
    return {name: text for name, text in texts.items() if text}


def _text_at(lines: list[str], statement: ast.AnnAssign, following: ast.stmt | None) -> str:

    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return str(following.value.value).strip()
    last = lines[(statement.end_lineno or statement.lineno) - 1]
    behind = last[statement.end_col_offset :].strip()
    if behind.startswith("#"):
        return behind.lstrip("# ")
    above: list[str] = []
    number = statement.lineno - 2
    while number >= 0 and lines[number].strip().startswith("#"):
        above.insert(0, lines[number].strip().lstrip("# "))
        number -= 1
    return " ".join(above)
