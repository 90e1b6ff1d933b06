import os
import signal
import sys
import time

seen = []


def handler(number, frame):
    name = signal.Signals(number).name
    seen.append((name, frame.f_code.co_name))


for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT):
    print(number.name, signal.getsignal(number))
    signal.signal(number, handler)
for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGQUIT, signal.SIGXFSZ):
    print(number.name, signal.getsignal(number))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))


def work():
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        os.kill(os.getpid(), number)


signal.signal(signal.SIGALRM, handler)
work()
signal.setitimer(signal.ITIMER_REAL, 0.02)
while len(seen) < 4:
    time.sleep(0.01)
print(seen)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(5)
