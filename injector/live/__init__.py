"""What a run is doing while it goes on: its raw files, followed from another process.

Nothing here is in the program's process, and nothing there knows of it: any number of followers may
read a run folder, on this machine or through a shared one.
"""
