"""Which descriptors are open, and how."""
import fcntl
import os

print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
for descriptor in range(3):
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL), fcntl.fcntl(descriptor, fcntl.F_GETFD)
    print(descriptor, flags)
print(os.umask(0o22), os.nice(0), os.getcwd() == os.path.dirname(os.path.abspath(__file__)))
