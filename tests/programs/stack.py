import inspect
import sys
import traceback


def depth():
    frame, count = sys._getframe(), 0
    while frame is not None:
        count += 1
        frame = frame.f_back
    return count


def deeper():
    return depth()


print(len(inspect.stack()), depth(), deeper(), sys._getframe().f_back)
print([(f.function, f.lineno) for f in inspect.stack()])
print(inspect.currentframe().f_code.co_name, inspect.currentframe().f_lineno)
traceback.print_stack(file=sys.stdout)
