"""Options that voirfiles declare, and the YAML files that set many at once (``--config``).

Each voirfile has a parser of its own (:class:`VoirfileParser`, which it sees as ``ov.argparser``), so that
two may declare an option of the same name. :class:`Options` holds them all. Options may also be declared as
the fields of a dataclass; their help is then what the source says of each field.
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
        """Declare each field of the dataclass ``model`` as an option. Values of an instance are defaults.

        ``options.dest`` is then an instance of the dataclass. With ``flatten``, the option of a field ``x_y``
        is ``--x-y``, else ``--dest.x-y``. A field of type bool gives ``--x`` and ``--no-x``; a field without
        a default is required.
        """
        kind = model if isinstance(model, type) else type(model)
        found = self._options.config.get(dest)
        given = found if isinstance(found, dict) else {}
        fields = _declare_fields(
            self,
            kind,
            prefix="" if flatten else f"{dest}.",
            defaults=None if kind is model else model,
            given=given,
        )
        self._models[dest] = (kind, fields)
        for field, where in fields.items():
            for action in self._actions if field in given else ():
                if action.dest == where:
                    action.default = self._typed(action, given[field], f"{dest}: {field}", dest)

    def merge_base_config(self, config: dict[str, Any], origin: str = "--config") -> None:
        """Take values for options from a mapping: ``{option: value}`` or ``{model: {field: value}}``.

        Values of the command line win over these.
        """
        self._options.merge_base_config(config, origin)

    @property
    def actions(self) -> list[argparse.Action]:
        """The options, as ``argparse`` keeps them."""
        return self._actions

    def nargs(self) -> dict[str, Any]:
        """Return how many values each option takes, as the ``nargs`` of ``argparse``."""
        return {name: action.nargs for name, action in self._option_string_actions.items()}

    def keys(self, within: str | None = None) -> list[str]:
        """Return the names of options in a configuration file, or of the fields of a dataclass ``within``."""
        if within is not None:
            return list(self._models[within][1]) if within in self._models else []
        return [*(_key(name) for action in self._actions for name in _names(action)), *self._models]

    def configure(self, key: str, value: Any) -> None:
        """Make a value of a configuration file the default of the option ``key``, if there is one."""
        for action in self._actions:
            if _key(key) in map(_key, _names(action)):
                action.default, action.required = self._typed(action, value, key, key), False
                return

    def parse(self, groups: Sequence[Sequence[str]]) -> argparse.Namespace:
        """Return the values of the options; those of a dataclass as one instance. Raises UserError.

        ``groups`` are the options of all voirfiles, each with its values.
        """
        known = self.nargs()
        words: list[str] = []
        for option, *values in groups:
            name = option.partition("=")[0]
            if name in known:  # another voirfile's option of that name may take a value
                words += [name] if known[name] == 0 else [option, *values]
        namespace = self.parse_args(words)
        for dest, (kind, fields) in self._models.items():
            given = {field: namespace.__dict__.pop(where) for field, where in fields.items()}
            setattr(namespace, dest, kind(**given))
        return namespace

    def shown(self) -> str:
        """Return the voirfile's path as a reader would write it."""
        return "the voirfiles" if self.voirfile is None else os.path.relpath(self.voirfile)

    def error(self, message: str) -> NoReturn:
        raise UserError(message if self.voirfile is None else f"{self.shown()}: {message}")

    def _typed(self, action: argparse.Action, value: Any, shown: str, key: str) -> Any:
        """``value`` of a configuration file as it would be on the command line.

        ``key`` is the key at the file's top that it stands under, ``shown`` all keys that lead to it. Raises
        UserError, with both and the file.
        """
        if value is None:
            return None
        if action.nargs == 0 and isinstance(action.const, bool):
            if isinstance(value, bool):
                return value
            text = f"true or false, not {value!r}"
        else:
            try:
                if isinstance(value, list):
                    return [self._typed_item(action, item) for item in value]
                return self._typed_item(action, value)
            except argparse.ArgumentError as error:
                text = error.message
        raise UserError(
            f"{self._options.origin(key)}: {shown}: {text} (an option of {self.shown()})"
        )

    def _typed_item(self, action: argparse.Action, value: Any) -> Any:
        """One value as ``action`` takes it. Raises argparse.ArgumentError."""
        if callable(action.type) and (isinstance(value, str) or action.type in (int, float)):
            value = self._get_value(action, str(value))
        self._check_value(action, value)
        return value


class Options:
    """The options of all voirfiles, those of each in a parser of its own."""

    def __init__(self) -> None:
        self.layers: dict[str | None, VoirfileParser] = {}
        self.config: dict[str, Any] = {}
        self._origin: dict[str, str] = {}

    def of(self, voirfile: str | None) -> VoirfileParser:
        """Return the parser of one voirfile, or of what belongs to none."""
        if voirfile not in self.layers:
            self.layers[voirfile] = VoirfileParser(voirfile, self)
        return self.layers[voirfile]

    def nargs(self) -> dict[str, Any]:
        """Return how many values each option takes; where voirfiles differ, as the first that takes any."""
        by_option: dict[str, Any] = {}
        for layer in self.layers.values():
            for name, nargs in layer.nargs().items():
                if by_option.get(name, 0) == 0:
                    by_option[name] = nargs
        return by_option

    def takers(self, option: str) -> list[VoirfileParser]:
        """Return the parsers that declare an option (``--lr``, or ``--lr=3``)."""
        name = option.partition("=")[0]
        return [layer for layer in self.layers.values() if name in layer.nargs()]

    def merge_base_config(self, config: dict[str, Any], origin: str) -> None:
        """Do as :meth:`VoirfileParser.merge_base_config`; ``origin`` names the file in error messages."""
        for key, value in config.items():
            if isinstance(value, dict) and isinstance(self.config.get(key), dict):
                value = {**self.config[key], **value}
            self.config[key] = value
            self._origin[key] = origin

    def origin(self, key: str) -> str:
        """Return the file that a key of a configuration is from."""
        return self._origin.get(key, "--config")

    def parse(self, groups: Sequence[Sequence[str]]) -> dict[str | None, argparse.Namespace]:
        """Return what each voirfile finds in ``ov.options``: its own options, and those of the others.

        Each of ``groups`` is an option with its values. Where no two voirfiles declare the same option, all
        share one namespace. Raises UserError for an option or a value that is not right, or a key of
        ``--config`` that no voirfile declares.
        """
        self._apply_config()
        parsed = {voirfile: layer.parse(groups) for voirfile, layer in self.layers.items()}
        names = [name for namespace in parsed.values() for name in vars(namespace)]
        everything: dict[str, Any] = {}
        for namespace in parsed.values():
            everything |= vars(namespace)
        if len(names) == len(everything):
            return dict.fromkeys(parsed, argparse.Namespace(**everything))
        return {
            voirfile: argparse.Namespace(**everything | vars(own))
            for voirfile, own in parsed.items()
        }

    def _apply_config(self) -> None:
        """Make the values of configuration files defaults. Raises UserError for a key without an option."""
        for key, value in self.config.items():
            is_model = isinstance(value, dict) and any(
                layer.keys(within=key) for layer in self.layers.values()
            )
            for name in value if is_model else [key]:
                self._check_key(name, key if is_model else None, self._origin[key])
            if not is_model:
                for layer in self.layers.values():
                    layer.configure(str(key), value)

    def _check_key(self, name: object, within: str | None, origin: str) -> None:
        """Raise UserError for a key that no voirfile declares, with the nearest one that exists."""
        known = {layer.shown(): layer.keys(within) for layer in self.layers.values()}
        named = [key for keys in known.values() for key in keys]
        if str(name) in named or (within is None and _key(str(name)) in named):
            return
        import difflib

        text = f"{origin}: {'' if within is None else within + ': '}no voirfile declares {name!r}"
        for near in difflib.get_close_matches(str(name), named, n=1):
            [owner, *_] = [voirfile for voirfile, keys in known.items() if near in keys]
            raise UserError(f"{text}; did you mean {near!r} of {owner}?")
        declared = [
            f"{voirfile}: {', '.join(sorted(keys))}" for voirfile, keys in known.items() if keys
        ]
        raise UserError(f"{text}; declared are, by {'; by '.join(declared)}" if declared else text)


def _names(action: argparse.Action) -> list[str]:
    """The words of an option on the command line; of a positional argument, its name."""
    return list(action.option_strings) or [action.dest]


def _key(name: str) -> str:
    """The key of an option in a configuration file."""
    return name.lstrip("-").replace("_", "-")


def read_config(path: str) -> dict[str, Any]:
    """Read a YAML file of options.

    Raises UserError if the file cannot be read, is no YAML, or holds no mapping.
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
    """Add an option for each field of the dataclass ``kind`` to the parser ``group``.

    ``defaults`` is an instance whose values replace the defaults of the fields, or None; ``given`` are the
    values of a configuration file. Returns, for each field, the attribute of the namespace that it is parsed
    into.
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
    """The default of a field's option; ``dataclasses.MISSING`` if it has none."""
    if field.name in given:
        return given[field.name]
    if defaults is not None:
        return getattr(defaults, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _declare(group: Any, name: str, dest: str, hint: Any, default: Any, text: str | None) -> None:
    """Add the option ``name`` of a type ``hint`` to ``group``, or two for a bool; ``text`` is its help."""
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
        # Both set the same attribute; the help is printed with the positive form alone.
        settings.update(required=False, help=None if text is None else argparse.SUPPRESS)
        group.add_argument(negative, action="store_false", **settings)
        return
    group.add_argument(
        dashes + flag, type=kind, metavar=name.rpartition(".")[2].upper(), **settings
    )


def _scalar(hint: Any) -> Any:
    """Return what parses a value for an annotation: the type itself; for ``X | None``, that of ``X``."""
    arguments = [a for a in typing.get_args(hint) if a is not type(None)]
    if arguments and typing.get_origin(hint) not in (list, tuple, dict, set):
        return _scalar(arguments[0])
    return hint if callable(hint) else str


def _comments(kind: type) -> dict[str, str]:
    """Return what the source of a dataclass says of each field.

    That is the comment behind the field, those above it, or the string below it.
    """
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
            texts[statement.target.id] = _text_about(lines, statement, following)
    return {name: text for name, text in texts.items() if text}


def _text_about(lines: list[str], statement: ast.AnnAssign, following: ast.stmt | None) -> str:
    """Return the text about the field that ``statement`` declares; ``following`` is the next statement."""
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
