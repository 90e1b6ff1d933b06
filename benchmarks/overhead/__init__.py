"""What probing costs, beside the plain program, a floor written by hand, and the peers.

``python -m benchmarks.overhead`` measures everything in pairs, in one run, and prints tables.
"""
