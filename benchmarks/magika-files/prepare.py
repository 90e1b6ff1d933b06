"""Makes 4 096 small files of eight types out of modules of the standard library: ``prepare.py FOLDER``."""

import gzip
import html
import io
import json
import sys
import sysconfig
import zipfile
from itertools import cycle
from pathlib import Path

NUMBER, LINES = 4096, 60
MODULES = ("argparse.py", "ast.py", "inspect.py", "pickle.py", "tarfile.py", "typing.py")


def zipped(text: str) -> bytes:
    """An archive of one file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("module.py"), text)
    return made.getvalue()


def page(text: str) -> str:
    return f"<!DOCTYPE html>\n<html><body>\n<pre>{html.escape(text)}</pre>\n</body></html>\n"


def table(text: str) -> str:
    rows = [f"{at},{len(line)},{json.dumps(line)}" for at, line in enumerate(text.splitlines())]
    return "\n".join(["number,length,line", *rows])


MAKERS = {
    "py": lambda text: text,
    "json": lambda text: json.dumps({"lines": text.splitlines()}, indent=1),
    "html": page,
    "csv": table,
    "ini": lambda text: "".join(
        f"[part{at}]\nwords = {word}\n" for at, word in enumerate(text.split())
    ),
    "txt": lambda text: " ".join(word for word in text.split() if word.isalpha()),
    "gz": lambda text: gzip.compress(text.encode(), mtime=0),
    "zip": zipped,
}


def main(folder: Path) -> None:
    """Write ``NUMBER.TYPE``: each has ``LINES`` lines of a module, from another line on."""
    library = Path(sysconfig.get_path("stdlib"))
    text = "".join((library / name).read_text(encoding="utf-8") for name in MODULES)
    lines = text.splitlines(keepends=True)
    folder.mkdir(parents=True, exist_ok=True)
    for at, (kind, make) in zip(range(NUMBER), cycle(MAKERS.items())):
        begin = at * 7 % (len(lines) - LINES)
        made = make("".join(lines[begin : begin + LINES]))
        content = made.encode() if isinstance(made, str) else made
        (folder / f"{at:04}.{kind}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
