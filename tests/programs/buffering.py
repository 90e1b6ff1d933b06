"""The order in which two streams reach one pipe."""
import sys

print("out 1")
print("err 1", file=sys.stderr)
sys.stdout.write("out 2 without end")
print("err 2", file=sys.stderr)
print(sys.stdout.line_buffering, sys.stdout.write_through)
if sys.argv[1:] == ["exit"]:
    sys.exit("message")
raise ValueError("after output")
