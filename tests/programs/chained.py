import sys


def cause():
    try:
        return {}["key"]
    except KeyError as error:
        raise ValueError("bad value") from error


def context():
    try:
        cause()
    except ValueError:
        return [][1]


def suppressed():
    try:
        1 / 0
    except ZeroDivisionError:
        raise RuntimeError("only this") from None


try:
    suppressed()
except RuntimeError as error:
    print(error.__cause__, repr(error.__context__), error.__suppress_context__)
context()
