"""Options that voirfiles declare, and the YAML files that set many at once.

``ov.argparser`` is a plain :class:`argparse.ArgumentParser`, of which each voirfile has its own, with
``add_from_model`` for dataclasses.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import typing
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import UserError

if typing.TYPE_CHECKING:
    import ast


class VoirfileParser(argparse.ArgumentParser):
    """The parser that the instruments of one voirfile see as ``ov.argparser``."""

    def __init__(self, voirfile: str | None, options: Options) -> None:
        super().__init__(prog="inject run", add_help=False, allow_abbrev=False)
        self.voirfile = voirfile
        self._options = options
        self._models: dict[str, tuple[type, dict[str, str]]] = {}

    def add_from_model(self, dest: str, model: Any, flatten: bool = True) -> None:
        """Declare each field of a dataclass (or an instance of one) as an option.

        ``options.dest`` is then an instance of it. With ``flatten`` the option of a field ``x_y`` is
        ``--x-y``, else ``--dest.x-y``. Fields of type bool get ``--x`` and ``--no-x``; those without a
        default are required.
        """
        kind = model if isinstance(model, type) else type(model)
        given = self._options.config.get(dest)
        fields = _declare_fields(
            self,
            kind,
            prefix="" if flatten else f"{dest}.",
            defaults=None if kind is model else model,
            given=given if isinstance(given, dict) else {},
        )
        self._models[dest] = (kind, fields)

    def merge_base_config(self, config: dict[str, Any], origin: str = "--config") -> None:
        """Take values for options from a mapping: ``{option: value}`` or ``{model: {field: value}}``.

        What the command line says wins.
        """
        self._options.merge_base_config(config, origin)

    @property
    def actions(self) -> list[argparse.Action]:
        """The options, as argparse keeps them."""
        return self._actions

    def nargs(self) -> dict[str, Any]:
        """How many values each option takes, as argparse says it."""
        return {name: action.nargs for name, action in self._option_string_actions.items()}

    def keys(self, within: str | None = None) -> list[str]:
        """What a configuration file calls the options, or the fields of the dataclass ``within``."""
        if within is not None:
            return list(self._models[within][1]) if within in self._models else []
        return [*(_key(name) for action in self._actions for name in _names(action)), *self._models]

    def configure(self, key: str, value: Any) -> None:
        """Make a value of a configuration file the default of an option, if there is one."""
        for action in self._actions:
            if _key(key) in map(_key, _names(action)):
                action.default, action.required = self._typed(action, value), False
                return

    def parse(self, groups: Sequence[Sequence[str]]) -> argparse.Namespace:
        """The values of the options, those of a dataclass put together."""
        known = self.nargs()
        words: list[str] = []
        for option, *values in groups:
            name = option.partition("=")[0]
            if name in known:  # another voirfile's option of that name may take a value
                words += [name] if known[name] == 0 else [option, *values]
        found = self.parse_args(words)
        for dest, (kind, fields) in self._models.items():
            given = {field: found.__dict__.pop(where) for field, where in fields.items()}
            setattr(found, dest, kind(**given))
        return found

    def shown(self) -> str:
        """The voirfile's path, as a reader would write it."""
        return "the voirfiles" if self.voirfile is None else os.path.relpath(self.voirfile)

    def error(self, message: str) -> NoReturn:
        raise UserError(message if self.voirfile is None else f"{self.shown()}: {message}")

    def _typed(self, action: argparse.Action, value: Any) -> Any:
        if isinstance(value, str) and callable(action.type):
            return self._get_value(action, value)
        return value


class Options:
    """The options of all voirfiles: those of each apart, so that two may declare the same."""

    def __init__(self) -> None:
        self.layers: dict[str | None, VoirfileParser] = {}
        self.config: dict[str, Any] = {}
        self._origin: dict[str, str] = {}

    def of(self, voirfile: str | None) -> VoirfileParser:
        """The parser of one voirfile, or of what belongs to none."""
        if voirfile not in self.layers:
            self.layers[voirfile] = VoirfileParser(voirfile, self)
        return self.layers[voirfile]

    def nargs(self) -> dict[str, Any]:
        """How many values each option takes; where voirfiles differ, as the one that wants some."""
        found: dict[str, Any] = {}
        for layer in self.layers.values():
            for name, nargs in layer.nargs().items():
                if found.get(name, 0) == 0:
                    found[name] = nargs
        return found

    def takers(self, option: str) -> list[VoirfileParser]:
        """Those that declare an option (``--lr``, or ``--lr=3``)."""
        name = option.partition("=")[0]
        return [layer for layer in self.layers.values() if name in layer.nargs()]

    def merge_base_config(self, config: dict[str, Any], origin: str) -> None:
        """See :meth:`VoirfileParser.merge_base_config`."""
        for key, value in config.items():
            if isinstance(value, dict) and isinstance(self.config.get(key), dict):
                value = {**self.config[key], **value}
            self.config[key] = value
            self._origin[key] = origin

    def parse(self, groups: Sequence[Sequence[str]]) -> dict[str | None, argparse.Namespace]:
        """What each voirfile finds in ``ov.options``: its own options and those of the others.

        Each group is an option with its values. Where no two voirfiles declare the same, all share one
        namespace.

        Raises:
            UserError: an option or a value that is not right, or a key of ``--config`` that no voirfile
                declares.
        """
        self._apply_config()
        parsed = {voirfile: layer.parse(groups) for voirfile, layer in self.layers.items()}
        names = [name for each in parsed.values() for name in vars(each)]
        everything: dict[str, Any] = {}
        for each in parsed.values():
            everything |= vars(each)
        if len(names) == len(everything):
            return dict.fromkeys(parsed, argparse.Namespace(**everything))
        return {
            voirfile: argparse.Namespace(**everything | vars(own))
            for voirfile, own in parsed.items()
        }

    def _apply_config(self) -> None:
        for key, value in self.config.items():
            fields = isinstance(value, dict) and any(
                layer.keys(within=key) for layer in self.layers.values()
            )
            for name in value if fields else [key]:
                self._check_key(name, key if fields else None, self._origin[key])
            if not fields:
                for layer in self.layers.values():
                    layer.configure(str(key), value)

    def _check_key(self, name: object, within: str | None, origin: str) -> None:
        """Raise UserError for what no voirfile declares."""
        known = {layer.shown(): layer.keys(within) for layer in self.layers.values()}
        named = [each for those in known.values() for each in those]
        if str(name) in named or (within is None and _key(str(name)) in named):
            return
        import difflib

        text = f"{origin}: {'' if within is None else within + ': '}no voirfile declares {name!r}"
        for near in difflib.get_close_matches(str(name), named, n=1):
            [owner, *_] = [voirfile for voirfile, those in known.items() if near in those]
            raise UserError(f"{text}; did you mean {near!r} of {owner}?")
        declared = [
            f"{voirfile}: {', '.join(sorted(those))}" for voirfile, those in known.items() if those
        ]
        raise UserError(f"{text}; declared are, by {'; by '.join(declared)}" if declared else text)


def _names(action: argparse.Action) -> list[str]:
    return list(action.option_strings) or [action.dest]


def _key(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def read_config(path: str) -> dict[str, Any]:
    """Read a YAML file of options.

    Raises:
        UserError: it cannot be read, is no YAML, or is no mapping.
    """
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except OSError as error:
        raise UserError(f"--config {path} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path} is no YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(
            f"--config {path} must be a mapping of options, not {type(content).__name__}"
        )
    return content


# -- dataclasses as groups of options ---------------------------------------------------------------


def _declare_fields(
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
    import ast
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
    import ast

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
