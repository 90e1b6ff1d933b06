"""Probes ``events.py`` in voir's own form: runs under voir, and under ``inject run``."""

from collections import deque

keep = deque(maxlen=1000).append


def keep_data(data):
    keep(data)


def instrument_events(ov):
    yield ov.phases.load_script

    ov.probe("//observe > x").subscribe(keep_data)
    ov.probe("//count > x").subscribe(keep_data)
    ov.probe("//nested > //inner > x").subscribe(keep_data)
    ov.probe("//stem > //leaf > x").subscribe(keep_data)
    ov.probe("//loop > #loop_i").subscribe(keep_data)
    ov.probe("//loop > #endloop_i").subscribe(keep_data)
    ov.probe("//answer > #value", overridable=True).override(lambda data: data["#value"])
