import atexit
import sys
import traceback


def report():
    print(sys.last_type, sys.last_value, sys.last_traceback.tb_lineno)
    print(traceback.format_exception(sys.last_type, sys.last_value, sys.last_traceback))
    traceback.print_last()
    print(sys.last_traceback.tb_frame.f_code.co_name, sys.last_traceback.tb_frame.f_back)
    print("__file__" in globals())


atexit.register(report)
try:
    sys.last_value
except AttributeError as error:
    print(error)


def fail():
    1 / 0


fail()
