"""What a run is doing while it goes on: its raw files, followed from another process.

Nothing here runs in the program's own processes, and these do not know about followers. Any number of
followers may read a run folder, on this machine or on others that share it.
"""
