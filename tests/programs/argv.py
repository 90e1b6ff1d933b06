import sys

print(sys.argv, len(sys.argv), sys.argv[0])
print(sys.orig_argv[1:])
