"""Options that voirfiles declare, and the YAML files that set many at once.

``ov.argparser`` is a plain :class:`argparse.ArgumentParser`, of which each voirfile has its own, with
``add_from_model`` for dataclasses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import UserError


class Layer(argparse.ArgumentParser):
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
        from .model import declare_fields

        kind = model if isinstance(model, type) else type(model)
        given = self._options.config.get(dest)
        fields = declare_fields(
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
        self.layers: dict[str | None, Layer] = {}
        self.config: dict[str, Any] = {}
        self._origin: dict[str, str] = {}

    def of(self, voirfile: str | None) -> Layer:
        """The parser of one voirfile, or of what belongs to none."""
        if voirfile not in self.layers:
            self.layers[voirfile] = Layer(voirfile, self)
        return self.layers[voirfile]

    def nargs(self) -> dict[str, Any]:
        """How many values each option takes; where voirfiles differ, as the one that wants some."""
        found: dict[str, Any] = {}
        for layer in self.layers.values():
            for name, nargs in layer.nargs().items():
                if found.get(name, 0) == 0:
                    found[name] = nargs
        return found

    def takers(self, option: str) -> list[Layer]:
        """Those that declare an option (``--lr``, or ``--lr=3``)."""
        name = option.partition("=")[0]
        return [layer for layer in self.layers.values() if name in layer.nargs()]

    def merge_base_config(self, config: dict[str, Any], origin: str) -> None:
        """See :meth:`Layer.merge_base_config`."""
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
