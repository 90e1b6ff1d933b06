import faulthandler
import sys

faulthandler.enable()


def deep(n):
    total = n
    if n:
        return deep(n - 1)
    faulthandler.dump_traceback(all_threads=False)
    if sys.argv[1] == "segv":
        faulthandler._sigsegv()
    if sys.argv[1] == "abort":
        faulthandler._sigabrt()
    return total


deep(2)
