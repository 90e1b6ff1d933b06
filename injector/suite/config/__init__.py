"""From a suite's YAML to its benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UserError

if TYPE_CHECKING:
    from .model import Suite

__all__ = ["load", "schema"]


def load(
    file: str | Path,
    facts: Mapping[str, object] | None = None,
    overrides: Sequence[str] = (),
    parameters: Sequence[str] = (),
    variables: Sequence[str] = (),
) -> Suite:
    """Read a suite.

    ``file``: a YAML file, or the name of a shipped suite. ``facts``: what is known of the machine by the
    names of its placeholders (``arch``, ``gpu_count``, ``cpu_count``, …); conditions that need one which is
    not given wait until the benchmark is filled. ``overrides``: ``a.b=v`` (``--override``). ``parameters``:
    ``key=v`` (``-P``). ``variables``: ``key=[…]`` (``-V``). Raises SuiteError with every mistake, each with
    its file, line and key. Raises UserError if pydantic is not installed.
    """
    _need_pydantic()
    from .loading import load  # imports pydantic, which is an extra: a report does without

    return load(file, facts or {}, overrides, parameters, variables)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a suite's YAML, for editors.

    It knows keys and kinds of values. What needs more than one file, such as a parent that no file has, only
    ``inject suite`` itself finds. Raises UserError if pydantic is not installed.
    """
    _need_pydantic()
    from .keys import schema

    return schema()


def _need_pydantic() -> None:
    try:
        import pydantic  # noqa: F401
    except ImportError as error:
        message = "suites are checked with pydantic: pip install 'overlay-injector[suite]'"
        if error.name != "pydantic":  # something that it needs itself
            message += f" ({error})"
        raise UserError(message) from None
