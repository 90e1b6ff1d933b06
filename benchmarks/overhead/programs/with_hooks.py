"""``events.py`` with this project's hooks and nothing above them: ``with_hooks.py TURNS REPEATS``.

The handler is the one that the floor and the peers are given: what differs is the way to it. Scopes
of outer functions belong to the overseer: the nested cases are measured through a voirfile.
"""

import sys
from collections import deque

from injector.probe.points import define
from injector.rewrite.engine import Engine
from injector.rewrite.request import Request, Unmatched

keep = deque(maxlen=1000).append


def same(value):
    return value


WANTED = (
    ("observe", "x", keep, False),
    ("count", "x", keep, False),
    ("answer", "#value", same, True),
    ("loop", "#loop_i", keep, False),
    ("loop", "#endloop_i", keep, False),
)


def report(found):
    if isinstance(found, Unmatched):
        sys.exit(f"the benchmark's probe found nothing: {found}")


if __name__ == "__main__":
    engine = Engine(report)
    engine.install()
    for number, (function, variable, handler, override) in enumerate(WANTED):
        hook = f"injector:{number}"
        define(hook, handler, override=override)
        engine.add([Request(hook, "events", (function,), variable, override=override)])
    import events

    for case in ("nested", "entered"):
        del events.CASES[case]
    events.main()
