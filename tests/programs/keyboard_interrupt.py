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
    import traceback  # as most programs have; its import evaluates text, and so would ours

    assert traceback
    atexit.register(lambda: exec("pass"))  # the interpreter forgets the interrupt, and exits with 1
    raise KeyboardInterrupt
