import locale
import os
import sys

print(sys.stdout.encoding, sys.stdout.errors, sys.stderr.encoding, sys.stderr.errors)
print(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.getpreferredencoding())
print(locale.setlocale(locale.LC_CTYPE), sys.flags.utf8_mode, os.device_encoding(0))
print(sys.argv, ascii(sys.argv))
print("ünïcødé \u2713")
