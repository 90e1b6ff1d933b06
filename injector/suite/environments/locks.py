"""The lock of an environment: every package that was installed, by version and digest.

It is a requirements file, kept beside the environment, so that an environment made anew from the same
requirements holds the same packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .itself import NAME
from .requirements import normal

_HEAD = "# Made by inject suite install; do not edit. Requirements: "


@dataclass(frozen=True)
class Lock:
    """The packages of an environment."""

    digest: str
    """Of the requirements that it answers."""
    options: tuple[str, ...]
    """Where its packages are to be looked for, as lines of a requirements file."""
    pins: tuple[str, ...]
    """A line for each package; this package itself is not among them."""

    @property
    def hashed(self) -> list[str]:
        """Lines whose files can be checked."""
        return [pin for pin in self.pins if "--hash=" in pin]

    @property
    def unhashed(self) -> list[str]:
        """Repositories and folders, which have no digest."""
        return [pin for pin in self.pins if "--hash=" not in pin]

    def text(self) -> str:
        """As a file."""
        return "\n".join([_HEAD + self.digest, *self.options, *self.pins]) + "\n"


def read(file: Path) -> Lock | None:
    """The lock in ``file``; None if there is none that could be read."""
    try:
        first, *rest = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    if not first.startswith(_HEAD):
        return None
    options = tuple(line for line in rest if line.startswith("-") and not line.startswith("-e "))
    pins = tuple(line for line in rest if line not in options)
    return Lock(first[len(_HEAD) :], options, pins)


def of_report(report: Mapping[str, Any]) -> Iterator[str]:
    """The pins of what pip's ``--report`` says was installed."""
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if normal(name) != NAME:
            yield _pin(name, version, item["download_info"], bool(item.get("is_direct")))


def _pin(name: str, version: str, info: Mapping[str, Any], direct: bool) -> str:
    url = str(info["url"])
    if (vcs := info.get("vcs_info")) is not None:
        return f"{name} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    if (folder := info.get("dir_info")) is not None:
        return f"-e {url}" if folder.get("editable") else f"{name} @ {url}"
    what = f"{name} @ {url}" if direct else f"{name}=={version}"
    hashes = (info.get("archive_info") or {}).get("hashes") or {}
    return what + "".join(f" --hash={kind}:{value}" for kind, value in sorted(hashes.items()))


def of_compiled(text: str) -> Iterator[str]:
    """The pins of what ``uv pip compile`` wrote."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    for line in joined.splitlines():
        kept = line.partition(" #")[0].strip()
        if kept and not kept.startswith(("#", "--")) and not _is_ours(kept):
            yield kept


def _is_ours(line: str) -> bool:
    return normal(re.split(r"[\s=@]", line)[0]) == NAME
