import sys


def fail(kind):
    raise kind("one of several")


if sys.version_info >= (3, 11):
    errors = []
    for kind in (ValueError, TypeError, OSError):
        try:
            fail(kind)
        except Exception as error:
            error.add_note(f"note on {kind.__name__}")
            errors.append(error)
    raise ExceptionGroup("three", [errors[0], ExceptionGroup("nested", errors[1:])])
