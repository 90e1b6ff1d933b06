"""Options that voirfiles declare, and the YAML files that set many at once.

``ov.argparser`` is a plain :class:`argparse.ArgumentParser` with one argument group per voirfile, so
that ``--help`` shows to which layer each option belongs, and with ``add_from_model`` for dataclasses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import UserError


class Options(argparse.ArgumentParser):
    """The parser that instruments see as ``ov.argparser``.

    ``layer`` is the voirfile whose instruments are being called: what they declare lands in its group.
    """

    def __init__(self) -> None:
        super().__init__(prog="inject run", add_help=False, allow_abbrev=False)
        self.layer: str | None = None
        self._layers: dict[str, Any] = {}
        self._models: dict[str, tuple[type, dict[str, str]]] = {}
        self._config: dict[str, Any] = {}
        self._config_origin: dict[str, str] = {}

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        """Declare an option, in the group of the voirfile that declares it."""
        if self.layer is None:
            return super().add_argument(*names, **settings)
        return self._group().add_argument(*names, **settings)  # type: ignore[no-any-return]

    def _group(self) -> Any:
        layer = self.layer or "options"
        if layer not in self._layers:
            self._layers[layer] = self.add_argument_group(f"options of {os.path.relpath(layer)}")
        return self._layers[layer]

    def add_from_model(self, dest: str, model: Any, flatten: bool = True) -> None:
        """Declare each field of a dataclass (or an instance of one) as an option.

        ``options.dest`` is then an instance of it. With ``flatten`` the option of a field ``x_y`` is
        ``--x-y``, else ``--dest.x-y``. Fields of type bool get ``--x`` and ``--no-x``; those without a
        default are required.
        """
        from .model import declare_fields

        kind = model if isinstance(model, type) else type(model)
        given = self._config.get(dest)
        fields = declare_fields(
            self._group() if self.layer else self,
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
        for key, value in config.items():
            if isinstance(value, dict) and isinstance(self._config.get(key), dict):
                value = {**self._config[key], **value}
            self._config[key] = value
            self._config_origin[key] = origin

    def parse(self, tokens: Sequence[str]) -> argparse.Namespace:
        """Parse the voirfiles' options.

        Raises:
            UserError: an option or a value that is not right, or a key of ``--config`` nobody knows.
        """
        self._apply_config()
        options = self.parse_args(list(tokens))
        for dest, (kind, fields) in self._models.items():
            values = {field: options.__dict__.pop(where) for field, where in fields.items()}
            setattr(options, dest, kind(**values))
        return options

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def _apply_config(self) -> None:
        known = {name.lstrip("-").replace("_", "-"): a for a in self._actions for name in _names(a)}
        for key, value in self._config.items():
            if key in self._models and isinstance(value, dict):
                self._check_fields(key, value)
                continue
            action = known.get(str(key).replace("_", "-"))
            if action is None:
                raise UserError(_unknown(key, [*known, *self._models], self._config_origin[key]))
            action.default, action.required = self._typed(action, value), False

    def _check_fields(self, dest: str, values: dict[str, Any]) -> None:
        fields = self._models[dest][1]
        for key in values:
            if key not in fields:
                origin = f"{self._config_origin[dest]}: {dest}"
                raise UserError(_unknown(key, list(fields), origin))

    def _typed(self, action: argparse.Action, value: Any) -> Any:
        if isinstance(value, str) and callable(action.type):
            return self._get_value(action, value)
        return value


def _names(action: argparse.Action) -> list[str]:
    return list(action.option_strings) or [action.dest]


def _unknown(key: object, known: Sequence[str], origin: str) -> str:
    import difflib

    near = difflib.get_close_matches(str(key), known, n=1)
    hint = (
        f"; did you mean {near[0]!r}?"
        if near
        else f"; known are {', '.join(sorted(known)) or 'none'}"
    )
    return f"{origin}: nobody knows the key {key!r}{hint}"


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
