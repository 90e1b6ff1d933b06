"""What is imported is declared: in pyproject.toml, in docs/dependencies.md, in a benchmark's requirements."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STANDARD = {*sys.stdlib_module_names, "profiling"}  # which came with Python 3.15
PACKAGES = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "mlflow": "mlflow-skinny",
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pynvml": "nvidia-ml-py",
    "yaml": "PyYAML",
}
"""By what is imported, the package that brings it, where the names differ."""
MET = {"torch", "jax", "tensorflow"}
"""What a voirfile imports when the program has imported it, and never before."""
BROUGHT = {"amdsmi": "ROCm"}
"""What no registry has: it comes with the driver, and its absence is expected."""
CARRIERS = {"youplot"}
"""What is read as files and never imported."""
BEHIND = {"alembic", "opentelemetry-exporter-otlp-proto-http", "sqlalchemy"}
"""What another library imports for the part of it that is used here, or shares its package with."""
LAUNCHER = {"sitecustomize"}
"""The user's own, which ours gives way to."""


def imported(path: Path) -> Iterator[str]:
    """The packages that a file imports when it runs; nothing of what is only there for the types."""
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]
        todo += ast.iter_child_nodes(node)


def foreign(path: Path) -> set[str]:
    return set(imported(path)) - set(STANDARD) - {"injector", "__main__", "tomllib"}


def package(module: str) -> str:
    return PACKAGES.get(module, module).lower().replace("_", "-")


def named(requirements: list[str]) -> set[str]:
    """The packages of lines as `name[extra]>=1`."""
    found = (re.match(r"[A-Za-z0-9._-]+", line.strip()) for line in requirements)
    return {match[0].lower().replace("_", "-") for match in found if match}


CORE = named(PROJECT["dependencies"])
EXTRAS = {
    name: named(PROJECT["optional-dependencies"][name])
    for name in (
        "compare",
        "mlflow",
        "otel",
        "page",
        "perfetto",
        "plot",
        "prometheus",
        "query",
        "ray",
        "suite",
        "tensorboard",
        "wandb",
    )
}
OPTIONAL = set().union(*EXTRAS.values())


def test_what_the_package_imports_is_a_dependency_of_its_own() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "injector").rglob("*.py")
        for name in foreign(path) - MET - set(BROUGHT) - LAUNCHER
        if package(name) not in CORE | OPTIONAL
    }
    assert missing == set()


def test_what_builds_the_package_is_required_to_build_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    required = named(tomllib.loads(text)["build-system"]["requires"])
    assert {package(name) for name in foreign(ROOT / "hatch_build.py")} <= required


def test_nothing_is_declared_that_nothing_imports() -> None:
    used = {package(name) for path in (ROOT / "injector").rglob("*.py") for name in foreign(path)}
    assert (CORE | OPTIONAL) - used == CARRIERS | BEHIND


def test_the_page_of_dependencies_has_each_with_its_least_version() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    for line in PROJECT["dependencies"]:
        name, _, version = line.partition(">=")
        assert re.search(rf"\[{name}\]\([^)]*\) ≥ {re.escape(version)} \|", page), line
    for name in OPTIONAL:
        assert name in page
    for name in BROUGHT:
        assert f"`{name}`" in page


@pytest.mark.parametrize(
    "requirements",
    sorted((ROOT / "benchmarks").glob("*/requirements.txt")),
    ids=lambda p: p.parent.name,
)
def test_a_benchmark_names_what_its_own_files_import(requirements: Path) -> None:
    files = requirements.parent.glob(
        "requirements*.txt"
    )  # an entry of a suite may choose another one
    lines = [line for file in files for line in file.read_text().splitlines()]
    there = named(lines) | {"torch", "voir"}
    for path in requirements.parent.glob("*.py"):
        wanted = {name for name in foreign(path) if not (path.parent / f"{name}.py").exists()}
        assert {package(name) for name in wanted} - there == set(), path


def test_what_the_tests_import_is_in_an_extra() -> None:
    extras = {name for lines in PROJECT["optional-dependencies"].values() for name in named(lines)}
    files = [p for p in (ROOT / "tests").rglob("*.py") if "programs" not in p.parts]
    beside = {path.stem for path in files} | {path.parent.name for path in files} | {"benchmarks"}
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in foreign(path) - beside
        if package(name) not in CORE | extras | {"torch"}
    }
    assert missing == set()


WITHOUT = (
    "import sys; sys.modules['pydantic'] = None; from injector.cli import main; sys.exit(main({}))"
)


@pytest.mark.parametrize("words", [["suite", "plan", "smoke"], ["suite", "schema"]])
def test_a_suite_without_the_extra_names_what_to_install(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(words)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'overlay-injector[suite]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


LARGE = {"pydantic", "numpy", "yaml", "jinja2", "scipy"}
IMPORTED = f"import sys; print(*sorted({LARGE} & {{*sys.modules}}))"


@pytest.mark.parametrize("quiet", [[], ["--quiet"]], ids=["report", "quiet"])
def test_a_run_without_training_imports_nothing_large(tmp_path: Path, quiet: list[str]) -> None:
    """Neither what checks suites nor what computes with spans, in the program or in the supervisor."""
    (tmp_path / "program.py").write_text(IMPORTED)
    words = ["run", *quiet, "program.py"]
    supervisor = f"from injector.cli import main; main({words}); {IMPORTED}"
    done = subprocess.run(
        [sys.executable, "-c", supervisor], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "\n\n")
    assert ("nothing recorded" in done.stderr) is not bool(quiet)


@pytest.mark.xdist_group("groups")
def test_groups_of_tests_are_those_of_the_scheduler(request):
    """Where it misses them, each process of tests makes anew what a group shares."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("tests run in one process, or in no groups")
    assert request.node.nodeid.endswith("@groups")
