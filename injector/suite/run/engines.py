"""The engines by name: choosing one for ``--engine``, with the options of a suite's ``system``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import UserError
from ..plan.jobs import Plan
from ..plan.machine import Machine, find_machine
from . import ray_engine, slurm_engine, ssh_engine
from .engine import JobEngine
from .local_engine import LocalEngine
from .ray_engine import RayEngine
from .slurm_engine import SlurmEngine
from .ssh_engine import SshEngine

LOCAL = "local"
ENGINES: dict[str, Callable[[Plan, str], JobEngine]] = {
    LOCAL: LocalEngine,
    slurm_engine.NAME: SlurmEngine,
    ssh_engine.NAME: SshEngine,
    ray_engine.NAME: RayEngine,
}


def machine_of(name: str, system: Mapping[str, Any], devices: str | None) -> Machine:
    """The machine to plan for with the engine ``name``, which stands for all that the engine reaches.

    ``system`` is that of the suite, ``devices`` the value of ``--devices``. Raises UserError if there is no
    such machine.
    """
    if name == slurm_engine.NAME:
        return slurm_engine.machine_of(_options(system, name), devices)
    if name == ray_engine.NAME:
        return ray_engine.machine_of(_options(system, name), devices)
    if name == ssh_engine.NAME:
        return ssh_engine.machine_of(system, devices)
    return find_machine(devices)


def _options(system: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    options = system.get(name)
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise UserError(f"system.{name} is a map of options, not {options!r}")
    return options


def check(plan: Plan) -> None:
    """Raise UserError if the engine of ``plan`` could never run one of its jobs."""
    if _engine_name(plan) == slurm_engine.NAME:
        slurm_engine.check(plan)
    if _engine_name(plan) == ray_engine.NAME:
        ray_engine.check(plan)


def engine_of(plan: Plan, folder: str) -> JobEngine:
    """The engine that ``plan`` was made for. ``folder`` is the suite's."""
    return ENGINES[_engine_name(plan)](plan, folder)


def _engine_name(plan: Plan) -> str:
    return str((plan.machine.get("engine") or {}).get("name") or LOCAL)
