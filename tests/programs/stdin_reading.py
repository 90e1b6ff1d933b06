import sys

print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), sys.stdin.fileno())
print(input("prompt: "))
print(sys.stdin.readline())
print(sys.stdin.read().split())
try:
    input()
except EOFError as error:
    print(repr(error))
