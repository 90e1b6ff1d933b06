"""Writes files here and there."""
import json
import os
import tempfile
from pathlib import Path

Path("out").mkdir()
Path("out/result.json").write_text(json.dumps({"loss": 0.5}))
with open("log.txt", "w") as file:
    print("line", file=file)
os.symlink("log.txt", "link")
os.chmod("log.txt", 0o640)
here = Path(__file__).parent
(here / "beside.txt").write_text(str(here == Path.cwd()))
with tempfile.TemporaryDirectory() as folder:
    print(os.path.isdir(folder))
print(sorted(p.name for p in Path("out").iterdir()))
