"""What the host, the program's processes and the devices do, sampled by a process beside the program.

The supervisor starts that process (:mod:`.start`), which writes ``raw/HOST.PID.monitor``
(:mod:`..store.monitor`). Nothing of it runs in the program's own processes.
"""
