"""The files of a new benchmark."""

from __future__ import annotations

import importlib.metadata
import textwrap
from collections.abc import Iterable
from typing import Any

import yaml

from .fetching import Fetched
from .proposals import Proposal

WIDTH = 96
SKIP, STOP = 5, 60
"""Steps that are left out, and steps that are measured, unless the benchmark is changed."""


def benchmark(name: str, fetched: Fetched, proposal: Proposal) -> str:
    """``benchmark.yaml``."""
    settings: dict[str, Any] = {"description": f"{fetched.target.run} of {_whose(fetched)}"}
    settings |= {"origin": fetched.origin, "run": fetched.target.run}
    if fetched.folder:
        settings["folder"] = fetched.folder
    settings["argv"] = fetched.target.argv()
    settings["voir"] = {"options": {"skip": SKIP, "stop": STOP}}
    settings |= {"plan": {"method": "per_gpu"}, "weight": 1.0, "max_duration": 600}
    settings["tags"] = []
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=WIDTH)
    return f"# {name}: every key is explained in docs/suites.md and docs/new-benchmark.md\n{text}"


def _whose(fetched: Fetched) -> str:
    return str(next(iter(fetched.origin.values())))


def voirfile(name: str, proposal: Proposal) -> str:
    """``voirfile.py``."""
    what = "Steps and losses" if proposal.lines else "What is to be known"
    how = "its loop was seen in a run of it" if proposal.places else "see below"
    body: list[str] = []
    place = ""
    for line in proposal.lines:
        if line.place and line.place != place:
            place = line.place
            body += _comment(place)
        body.append(line.text())
    for remark in proposal.remarks:
        text = [*_comment(remark.place), *_comment(remark.text)]
        body += ["", *text] if body else text
    if not proposal.lines:
        body.append("yield ov.phases.load_script")
    indented = textwrap.indent("\n".join(body), "    ", lambda text: bool(text.strip()))
    return f'"""{what} of {name}: {how}."""\n\n\ndef instrument_training(ov):\n{indented}\n'


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


def requirements(fetched: Fetched, modules: Iterable[str]) -> str:
    """``requirements.txt``; ``modules`` are those that the program imports and are not its own."""
    if fetched.requirements:
        head = "# What the repository's own requirements.txt says at that commit."
        return "\n".join([head, *fetched.requirements]) + "\n"
    if "package" in fetched.origin or "install" in fetched.origin:
        return (
            "# It is installed with what it needs, and locked (BASE/venv/GROUP.lock.txt).\n"
            "# Here belongs what it needs besides, or in certain versions: torch first, whose\n"
            "# default build brings gigabytes along.\n"
        )
    return "\n".join(["# What its source imports.", *_packages(modules)]) + "\n"


def _packages(names: Iterable[str]) -> list[str]:
    """Lines for modules that are imported: the packages that bring them here, in these versions."""
    brought = importlib.metadata.packages_distributions()
    found: dict[str, None] = {}
    for name in sorted(names):
        packages = brought.get(name) or []
        if packages:
            version = importlib.metadata.version(packages[0]).partition("+")[0]
            found[f"{packages[0]}=={version}"] = None
        else:
            found[f"# {name}: which package brings it?"] = None
    return list(found)


def readme(name: str, written: str, fetched: Fetched, proposal: Proposal) -> str:
    """``README.md``; ``written`` is the folder as the current folder knows it."""
    from_where = "\n".join(f"- {key}: `{value}`" for key, value in fetched.origin.items())
    loops = "\n".join(f"- `{place}`" for place in proposal.places)
    if not loops:
        loops = "\n".join(f"- {remark.place or remark.text}" for remark in proposal.remarks)
    return f"""\
# {name}

`{fetched.target.run}`, unmodified, from

{from_where}

Its loop:

{loops}

A step is one update of the weights; what counts as an item is the leading dimension of what the
model is called with, unless `voirfile.py` says otherwise.

```yaml
# suite.yaml
{name}:
  definition: {written}
```

```
inject suite install suite.yaml
inject suite prepare suite.yaml
inject suite run suite.yaml
```
"""
