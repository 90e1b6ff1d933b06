import sys
import threading


def hook(kind, error, trace):
    depth = 0
    while trace:
        depth, last, trace = depth + 1, trace, trace.tb_next
    print("hook", kind.__name__, error, depth, last.tb_frame.f_code.co_name, last.tb_lineno)


def fail():
    value = 1
    raise ValueError(value)


threading.excepthook = lambda arguments: print("thread hook", arguments.exc_type.__name__)
thread = threading.Thread(target=fail)
thread.start()
thread.join()
sys.excepthook = hook
sys.unraisablehook = lambda event: print("unraisable", event.exc_value)


class Bad:
    def __del__(self):
        raise OSError("in del")


Bad()
fail()
