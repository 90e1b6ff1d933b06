"""What goes wrong when starting children goes wrong the same way."""
import os
import subprocess
import sys
import traceback

attempts = [
    lambda: subprocess.run(["/no/such/program"]),
    lambda: subprocess.run([sys.executable, None]),
    lambda: subprocess.run([sys.executable, "a\0b"]),
    lambda: subprocess.run([sys.executable], cwd="/no/such/folder"),
    lambda: subprocess.run([sys.executable, "-c", "1"], env={"A=B": "1"}),
    lambda: os.execv("/no/such/python", ["python"]),
    lambda: os.execv(sys.executable, []),
    lambda: os.execvp("no-such-python-at-all", ["python", "x.py"]),
    lambda: os.execve("/no/such/python", ["python"], {"A": 1}),
    lambda: os.posix_spawn("/no/such/python", ["python"], {}),
    lambda: os.system("a\0b python"),
    lambda: os.system(),
    lambda: os.execv(1, 2, 3),
    lambda: os.posix_spawn(sys.executable, ["python"], {}, nonsense=1),
]
for attempt in attempts:
    try:
        attempt()
    except Exception:
        print(traceback.format_exc())
print(os.system, os.execv, os.system.__name__, os.execv.__doc__)
print(os.system("exit 3"), os.system(command="exit 4"))
print("PYTHONPATH" in os.environ, subprocess.run(["env"], capture_output=True).returncode)
os.execv("/no/such/python", ["python"])
