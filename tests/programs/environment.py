"""Prints the environment as it sees it and as its children see it."""
import os
import subprocess
import sys

SHOW = "import os; print(sorted(os.environ.items()))"


def show(title, text):
    lines = sorted(line for line in text.splitlines() if not line.startswith(("_=", "SHLVL=")))
    print(title, *lines, sep="\n  ")


print(sorted(os.environ.items()))
print(list(os.environ)[-3:], len(os.environ), "PYTHONPATH" in os.environ, os.getenv("PYTHONPATH"))
show("env", subprocess.run(["env"], capture_output=True, text=True).stdout)
show("python", subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True).stdout)
isolated = [sys.executable, "-I", "-c", SHOW]
show("isolated", subprocess.run(isolated, capture_output=True, text=True).stdout)
explicit = {"A": "1", "PATH": os.environ["PATH"]}
for command in (["env"], [sys.executable, "-c", SHOW]):
    show("explicit", subprocess.run(command, capture_output=True, text=True, env=explicit).stdout)
show("shell", subprocess.run("env", shell=True, capture_output=True, text=True).stdout)
show("popen", os.popen("env").read())
sys.stdout.flush()
os.system("env | grep -c -i -e inject_boot -e sitecustomize -e launch/site")
os.environ["PYTHONPATH"] = "/tmp/changed"
show("changed", subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True).stdout)
del os.environ["PYTHONPATH"]
os.putenv("ONLY_IN_C", "yes")
show("removed", subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True).stdout)
show("env", subprocess.run(["env"], capture_output=True, text=True).stdout)
