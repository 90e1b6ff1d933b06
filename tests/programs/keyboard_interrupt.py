import atexit
import os
import signal
import sys
import time

atexit.register(print, "exit function")


def wait():
    try:
        time.sleep(5)
    finally:
        print("finally")


how = sys.argv[1]
if how == "signal":
    os.kill(os.getpid(), signal.SIGINT)
    wait()
elif how == "raise":
    raise KeyboardInterrupt("by hand")
elif how == "caught":
    try:
        os.kill(os.getpid(), signal.SIGINT)
        wait()
    except KeyboardInterrupt as error:
        print("caught", repr(error))
elif how == "subclass":

    class Mine(KeyboardInterrupt):
        pass

    raise Mine
elif how == "exec":
    atexit.register(exec, "pass")
    raise KeyboardInterrupt
