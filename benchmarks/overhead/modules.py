"""Generated modules to import: ordinary code, and as many modules as a large program has."""

from __future__ import annotations

from pathlib import Path

COUNT = 500
"""How many modules are written."""

_FUNCTION = '''
def function_{n}(first, second=None, *rest, **options):
    """Return something that depends on every argument."""
    total = [first, second, *rest]
    for name, value in options.items():
        if value is not None and name not in total:
            total.append((name, value))
    return total
'''

_CLASS = '''
class Class_{n}:
    """Keeps what it is given."""

    kind = {n}

    def __init__(self, value):
        self.value = value

    @property
    def twice(self):
        return self.value * 2
'''


def write(folder: Path) -> Path:
    """Write the modules into ``folder`` and return it."""
    folder.mkdir(exist_ok=True)
    text = "import os\nimport sys\n"
    text += "".join(_FUNCTION.format(n=n) for n in range(12))
    text += "".join(_CLASS.format(n=n) for n in range(4))
    for number in range(COUNT):
        (folder / f"module_{number:03}.py").write_text(text, encoding="utf-8")
    return folder
