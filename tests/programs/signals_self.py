"""Dies by the signal it is told."""
import os
import signal
import sys
import time

number = getattr(signal, sys.argv[1])
print("about to", sys.argv[1], flush=True)
sys.stdout.write("unflushed")
if sys.argv[2:] == ["abort"]:
    os.abort()
os.kill(os.getpid(), number)
time.sleep(1)
print("survived")
