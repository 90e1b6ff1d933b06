import atexit
import os
import sys

atexit.register(lambda: print("exit", os.getpid() == first, flush=True))
first = os.getpid()
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    if sys.argv[1:] == ["exit"]:
        sys.exit(3)
    if sys.argv[1:] == ["raise"]:
        raise ValueError("in the child")
    os._exit(4)
_, status = os.waitpid(pid, 0)
print("parent", os.waitstatus_to_exitcode(status))
