import atexit
import sys
import threading
import weakref


class Thing:
    def __del__(self):
        print("deleted")


def last():
    print("registered first", sorted(name for name in globals() if not name.startswith("__a")))


def fails():
    raise ValueError("in an exit function")


atexit.register(last)
atexit.register(fails)
atexit.register(print, "registered last")
atexit.register(lambda: atexit.register(print, "registered at exit"))
threading._register_atexit(print, "before threads are joined")
weakref.finalize(Thing(), print, "finalized")
thing = Thing()
finalizer = weakref.finalize(thing, print, "finalized at exit")
print(atexit._ncallbacks() >= 5)
sys.exit(3)
