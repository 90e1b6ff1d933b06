"""Finding the instruments of a voirfile.

A voirfile is run once, as a module of its own (``__voir__``, ``__voir1__``, …), and its instruments
are what ``__instruments__`` holds (nested lists and dicts are flattened), else every name that starts
with ``instrument_``.
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..errors import UserError

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

PREFIX = "instrument_"


def load(path: str, number: int) -> list[Any]:
    """Run the voirfile at ``path``; return its instruments in order.

    Raises:
        UserError: it cannot be read, does not parse, raises, or defines no instrument.
    """
    name = f"__voir{number}__" if number else "__voir__"
    module = ModuleType(name)
    module.__file__ = path
    # dataclasses, pickle and inspect look a class's module up by its name.
    sys.modules[name] = module
    code = compile_voirfile(path)
    try:
        exec(code, module.__dict__)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # it may not end the program
        raise UserError(f"voirfile {path} raised:\n{_trace(error, path)}") from error
    found = instruments(module.__dict__)
    if not found:
        raise UserError(
            f"voirfile {path} has no instrument: it defines neither a function named "
            f"{PREFIX}… nor __instruments__"
        )
    return found


def compile_voirfile(path: str) -> Any:
    """Compile the file at ``path``.

    Raises:
        UserError: with file, line and a caret when it does not parse.
    """
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise UserError(f"voirfile {path} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise UserError(f"voirfile {path} does not parse:\n{_trace(error, path)}") from error


def instruments(namespace: dict[str, Any]) -> list[Any]:
    """The instruments that a voirfile's namespace defines."""
    if "__instruments__" in namespace:
        return _flat(namespace["__instruments__"])
    return [
        one for name, value in namespace.items() if name.startswith(PREFIX) for one in _flat(value)
    ]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _flat(part)]
    return [value]


def _trace(error: BaseException, path: str) -> str:
    """The traceback from the voirfile on: what lies before is ours."""
    import traceback

    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != path:
        step = step.tb_next
    lines = traceback.format_exception(type(error), error, step)
    return "".join(lines).rstrip()
