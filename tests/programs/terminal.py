import os
import shutil
import sys

print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())
print(os.get_terminal_size() if sys.stdout.isatty() else None, shutil.get_terminal_size())
print(os.getpgrp() == os.tcgetpgrp(0) if sys.stdin.isatty() else None)
print(sys.stdout.line_buffering, sys.stdout.encoding, sys.stderr.errors)
print(input("name? "))
