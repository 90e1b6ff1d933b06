from __future__ import annotations

import enum
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.mpi import launcher_number
from injector.store.event import line, lost_line, plain, process_line, value_line


def read(record: bytes) -> Any:
    """As a strict reader does: one line, UTF-8, no NaN."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    assert record.endswith(b"\n") and record.count(b"\n") == 1 and b"\0" not in record
    return json.loads(record.decode("utf-8"), parse_constant=refuse)


def data_of(value: object) -> Any:
    return read(line("data", value, 5))["data"]


@pytest.mark.parametrize(
    ("text", "number"), [("3", 3), ("0", 0), ("", None), ("-1", None), ("a", None)]
)
def test_a_number_of_a_launcher(monkeypatch: pytest.MonkeyPatch, text: str, number: object) -> None:
    monkeypatch.setenv("RANK", text)
    assert launcher_number("RANK") == number


texts = st.text(st.characters(exclude_categories=("Cs",)))
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
jsonable = st.recursive(
    scalars | texts, lambda each: st.lists(each) | st.dictionaries(texts, each), max_leaves=20
)
odd = st.recursive(
    scalars
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.sampled_from([object(), Ellipsis, int, float("nan")])
    | st.builds(lambda: 10**5000),
    lambda each: (
        st.lists(each)
        | st.tuples(each, each)
        | st.dictionaries(st.floats() | st.text() | st.none() | st.binary() | st.booleans(), each)
        | st.frozensets(st.text())
    ),
    max_leaves=20,
)


@given(jsonable)
def test_json_comes_back_as_it_was(value: object) -> None:
    assert data_of(value) == value


@given(odd)
def test_anything_becomes_a_line_that_strict_readers_take(value: object) -> None:
    record = line("data", {"value": value}, 7)
    assert set(read(record)) == {"event", "data", "t"}
    # Surrogates come in pairs or not at all.
    json.dumps(read(record), ensure_ascii=False).encode("utf-8")


@given(st.text(), odd | st.floats() | st.integers())
def test_values_say_what_lines_say(series: str, value: object) -> None:
    expected = read(line("value", {"series": series, "value": value}, 9))
    assert read(value_line(series, value, 9)) == expected


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ([1.0, math.nan], [1.0, "NaN"]),
        ({math.nan: 1}, {"NaN": 1}),
        ({1: 1, None: 2, False: 3, 2.5: 4}, {"1": 1, "null": 2, "false": 3, "2.5": 4}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        ("\udcff", "\\udcff"),
        ("😀\ud83d", "😀\\ud83d"),
        ({1, 2}, {"$unserializable": "{1, 2}"}),
        ((1, (2,)), [1, [2]]),
        (b"x", {"$unserializable": "b'x'"}),
    ],
)
def test_what_json_lacks(value: object, kept: object) -> None:
    assert data_of(value) == kept


class Colour(enum.IntEnum):
    RED = 3


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(name)


class HostileDict(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise MemoryError


class Huge:
    def __repr__(self) -> str:
        return "x" * 1_000_000


def test_values_with_a_will_of_their_own() -> None:
    assert data_of(Colour.RED) == 3
    assert data_of([Hostile()]) == [{"$unserializable": "<Hostile without a repr>"}]
    assert "$unserializable" in data_of({"a": HostileDict(b=1)})["a"]
    assert len(data_of(Huge())["$unserializable"]) == 2_000


def test_numbers_of_arrays() -> None:
    np = pytest.importorskip("numpy")
    assert data_of({"a": np.float32(0.5), "b": np.int64(3), "c": np.array(2.0)}) == {
        "a": 0.5,
        "b": 3,
        "c": 2.0,
    }
    assert data_of(np.float64("nan")) == "NaN"
    assert data_of(np.float32("nan")) == "NaN"
    assert "$unserializable" in data_of(np.zeros(3))


def test_number_of_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    assert data_of({"loss": torch.tensor(0.25, requires_grad=True)}) == {"loss": 0.25}


def test_circles_and_towers_end() -> None:
    circle: list[Any] = [1]
    circle += [circle, {"again": circle}]
    assert data_of(circle) == [1, {"$unserializable": "..."}, {"again": {"$unserializable": "..."}}]
    tower: Any = 0
    for _ in range(100_000):
        tower = [tower]
    text = json.dumps(data_of(tower))
    assert "..." in text and len(text) < 1_000
    while tower:  # taken down by hand, as the deallocator of old Pythons recurses
        tower = tower[0]


def test_keyboard_interrupt_is_the_programs() -> None:
    class Interrupted:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plain([Interrupted()])


def test_the_count_of_losses_can_be_rewritten_in_place() -> None:
    lengths = {
        len(lost_line(n, why, t))
        for n in (0, 10**18)
        for why in ("", "E" * 30)
        for t in (0, 10**18)
    }
    assert len(lengths) == 1
    assert read(lost_line(12, "ENOSPC", 3))["data"]["records"] == 12


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "3"}, (0, 3)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, (None, None)),
    ],
)
def test_the_task_that_mpirun_gave(
    variables: dict[str, str], found: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    data = read(process_line({}))["data"]
    assert (data.get("task"), data.get("tasks")) == found
