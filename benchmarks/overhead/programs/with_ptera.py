"""``events.py`` with its functions probed by ptera: ``with_ptera.py TURNS REPEATS``."""

import contextlib
from collections import deque

import events
from ptera import probing

keep = deque(maxlen=1000).append


def keep_data(data):
    keep(data)


SELECTORS = (
    "/events/observe > x",
    "/events/count > x",
    "/events/nested > /events/inner > x",
    "/events/stem > /events/leaf > x",
)
# Both in one probe: once ptera has rewritten a function, it finds two by that name.
LOOP = ("/events/loop > #loop_i", "/events/loop > #endloop_i")

if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        for selector in SELECTORS:
            stack.enter_context(probing(selector)).subscribe(keep_data)
        stack.enter_context(probing(*LOOP)).subscribe(keep_data)
        override = stack.enter_context(probing("/events/answer > #value", overridable=True))
        override.override(lambda data: data["#value"])
        events.main()
