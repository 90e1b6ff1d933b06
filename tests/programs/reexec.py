"""Runs itself again, in each of the usual ways."""
import os
import subprocess
import sys

how, *rest = sys.argv[1:]
state = os.environ.get("REEXEC_STAGE")
print(how, rest, state, sys.argv[0] == __file__ or not os.path.isabs(sys.argv[0]), flush=True)
if state != "done":
    os.environ["REEXEC_STAGE"] = "done"
    if how == "execv":
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if how == "orig":
        os.execv(sys.executable, sys.orig_argv)
    if how == "execve":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "EXTRA": "1"})
    if how == "execvp":
        os.execvp("python3", ["python3", *sys.argv])
    if how == "execl":
        os.execl(sys.executable, sys.executable, *sys.argv)
    if how == "spawn":
        print(os.spawnv(os.P_WAIT, sys.executable, [sys.executable, *sys.argv]))
    if how == "posix_spawn":
        pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv], os.environ)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if how == "run":
        print(subprocess.run([sys.executable, *sys.argv], check=False).returncode)
    if how == "env":
        print(subprocess.run([sys.executable, *sys.argv], env=dict(os.environ)).returncode)
    if how == "shell":
        print(subprocess.call(f"{sys.executable} {' '.join(sys.argv)}", shell=True))
    if how == "system":
        print(os.system(f"{sys.executable} {' '.join(sys.argv)}"))
else:
    print(sys.argv, sorted(set(os.environ) & {"EXTRA", "REEXEC_STAGE", "PYTHONPATH"}))
    print([name for name in os.environ if "INJECT_BOOT" in name or "INJECT_PATH" in name])
    sys.exit(3)
