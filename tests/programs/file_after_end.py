"""CPython takes __file__ away when a script has ended."""
import atexit
import threading
import time

atexit.register(lambda: print("at exit", "__file__" in globals(), "__cached__" in globals()))


def late():
    time.sleep(0.1)
    print("thread", "__file__" in globals())


print("running", "__file__" in globals())
threading.Thread(target=late).start()
