"""What the host, the program's processes and the devices do, sampled by a process of its own.

``python -m injector.monitor`` is started beside a program and writes ``raw/HOST.PID.monitor``. The
program's own process knows nothing of it.
"""
