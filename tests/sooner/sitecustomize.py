"""For programs of tests: of the 2.6 s of one that imports PyTorch, Python collects garbage for 1 s.

Half of that is while modules are imported, half when all of them are gone through at the end, for nothing. A
release is tested without (``search_path.py``), and parity with ``python`` always (``tests/launch``).
"""

import atexit
import gc

gc.set_threshold(50_000, 20, 50)


@atexit.register  # the first one is called last, when only Python's own end is to come
def _leave_all_to_the_system():
    gc.disable()
    gc.freeze()
