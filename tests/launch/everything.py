"""A voirfile that probes every place of the program and of its neighbours; it only looks."""

from __future__ import annotations

from injector.probe.points import define
from injector.rewrite.request import ANYWHERE, MAIN, Request

PLACES = (
    None,
    "#enter",
    "#exit",
    "#value",
    "#error",
    "#yield",
    "#receive",
    "#loop",
    "#endloop",
)
MODULES = (
    MAIN,
    "neighbour",
    "broken_at_import",
    "importer_of_main",
    "noisy_at_import",
    "neighbour_package.sub",
    "helper",
    "made_now",
    "inside",
    "wrong",
    "mapped",
)


def instrument_everything(ov):
    yield ov.phases.load_script
    engine = ov._install.__self__._engine
    requests = []
    for number, place in enumerate(PLACES):
        for module in MODULES:
            name = f"injector:everything{number}{module}"
            define(
                name,
                lambda *values: None,
                wildcard=place is None,
                receives=place == "#receive",
            )
            requests.append(Request(name, module, ANYWHERE, place))
    engine.add(requests)
