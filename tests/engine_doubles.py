"""Doubles of container engines: they record the words that they are given, and run what is in them."""

from __future__ import annotations

import json
import os
import sys

IMAGE = "test-image:1"
ENGINES = ("docker", "podman", "apptainer")
DOUBLE = """\
#!{python}
import json, os, sys

words, log = sys.argv[1:], {log!r}
with open(log + "l", "a") as file:
    file.write(json.dumps(words) + "\\n")
if words[0] in ("info", "rm"):
    print("[]")
    sys.exit(0)
if words[0] == "pull":
    open(log + ".pulled", "w").close()
    print("pulled", *words)
    sys.exit(0)
if words[0] == "image":
    sys.exit(not os.path.exists(log + ".pulled"))
environ = {{n[13:]: text for n, text in os.environ.items() if n.startswith("APPTAINERENV_")}}
environ |= {{"PATH": {path!r}, "HOME": "/tmp"}}
for option, word in zip(words, words[1:]):
    if option == "--env":
        name, equals, text = word.partition("=")
        environ[name] = text if equals else os.environ[name]
    if option in ("--workdir", "--pwd"):
        os.chdir(word)
at = next(at for at, word in enumerate(words) if {image!r} in word)
os.execvpe(words[at + 1], words[at + 1:], environ)
"""


def make_doubles(folder):
    """All engines in ``folder``; what a container has on its PATH is that of this interpreter."""
    folder.mkdir()
    path = os.pathsep.join([os.path.dirname(sys.executable), "/usr/bin:/bin"])
    for name in ENGINES:
        log = str(folder / f"{name}.json")
        text = DOUBLE.format(python=sys.executable, log=log, path=path, image=IMAGE)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def calls(folder, engine):
    """The words of each call of an engine, in order."""
    lines = (folder / f"{engine}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
