"""All the ways of sys.exit."""
import os
import sys

print("partial line", end="")
how = sys.argv[1] if len(sys.argv) > 1 else "0"
if how == "none":
    sys.exit()
if how == "text":
    sys.exit("a message")
if how == "tuple":
    sys.exit((1, "two"))
if how == "true":
    sys.exit(True)
if how == "big":
    sys.exit(256 + 7)
if how == "negative":
    sys.exit(-1)
if how == "raise":
    raise SystemExit(4)
if how == "class":
    raise SystemExit
if how == "builtin":
    exit(5)
if how == "os":
    os._exit(6)
if how == "flushed":
    sys.stdout.flush()
    os._exit(7)
if how == "finally":
    try:
        sys.exit(8)
    finally:
        print("finally")
if how == "nested":
    try:
        sys.exit(9)
    except SystemExit as error:
        print("caught", error.code)
        raise
sys.exit(int(how))
