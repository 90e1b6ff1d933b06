"""What the host, the program's processes and the devices do, sampled by a process of its own.

A process of its own is started beside a program (:mod:`.start`) and writes ``raw/HOST.PID.monitor``. The
program's own process knows nothing of it.
"""
