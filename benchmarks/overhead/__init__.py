"""What probing costs, compared with the plain program, with hooks written by hand (the floor), and with the
peers.

``python -m benchmarks.overhead`` measures everything in pairs, in one run, and prints tables.
"""
