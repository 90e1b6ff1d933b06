"""``run.json``: the facts about a run as a whole; its versions, its writer, its one reader.

The file is one JSON object with the key ``schema`` first; docs/run-folder.md describes the keys. If it has
the key ``files`` (the seal of a run that was collected), then ``checksum`` is the CRC-32 of all other keys.

Versions are those of :mod:`..schema`:

1. the first. Keys were added to it later; a reader takes a missing one as unknown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from zlib import crc32

from ..errors import UserError
from ..plain_json import dumps, indented, loads
from ..schema import SCHEMA
from .place import replace_file

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

NAME = "run.json"
LONGEST = 1 << 28
"""The most bytes of it that are read."""


class NotARunError(UserError):
    """A path that should be a run folder, or a folder that should hold runs, is none."""


class BrokenRunError(NotARunError):
    """The ``run.json`` of a run exists and is not what was written."""


def read_info(folder: str) -> dict[str, Any]:
    """The content of ``run.json`` in ``folder`` without its checksum; empty if there is no such file.

    Raises BrokenRunError if it is not what was written, NotARunError if a later version wrote it.
    """
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            text = file.read(LONGEST)
        info = loads(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BrokenRunError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"it is no JSON: {error}") from None
    if not isinstance(info, dict):
        raise _broken(path, "it holds no JSON object")
    # First: a later version may compute its checksum differently.
    check_schema(info.get("schema"), folder)
    checksum = info.pop("checksum", None)
    # Neither key is there in what older versions wrote, and where a user edited the file on purpose.
    if (checksum is not None or "files" in info) and checksum != checksum_of(info):
        raise _broken(
            path,
            "its checksum differs (where it was edited by hand, remove its keys files and checksum)",
        )
    if checksum is None:
        from .shapes import RUN, misfit  # which only a file without a checksum needs

        if (wrong := misfit(info, RUN, sparse=True)) is not None:
            raise _broken(path, wrong)
    return info


def _broken(path: str, what: str) -> BrokenRunError:
    return BrokenRunError(
        f"{path} is broken: {what}. Without this file, the report is made of what the processes "
        "wrote in raw/"
    )


def checksum_of(info: Mapping[str, Any]) -> str:
    """The CRC-32 of ``info`` as JSON, in eight hexadecimal digits."""
    return f"{crc32(dumps(info).encode()):08x}"


def check_schema(version: object, where: str) -> None:
    """Raise NotARunError if ``version``, of the file or folder ``where``, is later than our schema."""
    if isinstance(version, int) and version > SCHEMA:
        raise NotARunError(
            f"{where} was written by a later injector "
            f"(its schema is {version}; this one reads up to {SCHEMA})"
        )


def write_info(folder: str, info: Mapping[str, Any]) -> None:
    """Write ``info`` to ``run.json`` in ``folder`` in one step, with the schema's version. Raises OSError.

    If ``info`` has the seal, a checksum is added.
    """
    info = {"schema": SCHEMA, **info}
    if "files" in info:
        info = {**info, "checksum": checksum_of(info)}
    text = indented(info)
    replace_file(os.path.join(folder, NAME), [text.encode(), b"\n"])
