"""Probes ``events.py`` through the fast API: what is observed is recorded in the run folder."""


def same(value):
    return value


def instrument_events(ov):
    yield ov.phases.load_script

    ov.value("//observe > x", "x")
    ov.value("//count > x", "count")
    ov.value("//nested > //inner > x", "nested")
    ov.value("//stem > //leaf > x", "entered")
    ov.value("//loop > #loop_i", "begin")
    ov.value("//loop > #endloop_i", "end")
    ov.override("//answer > #value", same)
