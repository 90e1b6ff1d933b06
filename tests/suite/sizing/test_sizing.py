"""Batch sizes: what is known, what follows from it, and which are tried."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import UserError
from injector.suite.config.functions import bytes_of
from injector.suite.config.model import Benchmark, Suite
from injector.suite.config.problems import Where
from injector.suite.plan import batch_sizes, observations
from injector.suite.plan.batch_sizes import BatchSizer
from injector.suite.plan.observations import MIB, BatchObservations, Limit, Observation
from injector.suite.results.run_record import RunRecord
from injector.suite.results.suite_summary import ProcessSummary
from injector.suite.sizing import search
from injector.suite.sizing.search import Search, TrialError, TrialRun

GIB = 1 << 30


def line(*batches, slope=GIB, begin=2 * GIB, rate=None):
    """What batches take that need so much each, beside what is always needed."""
    return BatchObservations(
        tuple(Observation(b, begin + slope * b, rate and rate(b)) for b in batches)
    )


# --- what is known


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4108.75 MiB", 4108.75 * MIB),
        ("8 GB", 8e9),
        ("80Go", 80e9),
        ("8 Gio", 8 * GIB),
        ("1.5 KiB", 1536),
        (17, 17.0),
        ("12", 12.0),
    ],
)
def test_sizes_in_every_spelling(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["much", "8 XB", "", None, True, "MiB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"4108\.75 MiB"):
        bytes_of(text)


FIRST = """
version: 1.0
bert:
  arg: --batch-size
  model:
    1: 4108.75 MiB
    8: 8614.75 MiB
  optimized: 128
bf16: {}
"""
SECOND = """
bert:
  observations:
  - {batch_size: 16, cpu: 8, memory: 9541 MiB, perf: 193.47, time: 1744818946}
  - {batch_size: 8, cpu: 8, memory: 6025 MiB, perf: 159.86, time: 1744929478}
"""


def test_both_of_milabenchs_forms_are_read(tmp_path):
    (tmp_path / "default.yaml").write_text(FIRST)
    (tmp_path / "H100.yaml").write_text(SECOND)
    folders = [str(tmp_path)]
    assert observations.known_batches(folders, "NVIDIA H100 80GB HBM3") == {
        "bert": BatchObservations((
            Observation(8, 6025 * MIB, 159.86, 1744929478),
            Observation(16, 9541 * MIB, 193.47, 1744818946),
        ))
    }  # fmt: skip
    assert observations.known_batches(folders, "NVIDIA A100") == {
        "bert": BatchObservations((Observation(1, 4108.75 * MIB), Observation(8, 8614.75 * MIB)))
    }
    assert observations.known_batches(folders, "cpu") == {}, "the default is of devices"


def test_this_very_device_comes_first(tmp_path):
    (tmp_path / "H100.yaml").write_text(SECOND)
    kind = "NVIDIA H100 80GB HBM3"
    observations.add_observations(str(tmp_path), kind, "bert", line(4))
    observations.add_observations(str(tmp_path), "NVIDIA H100 PCIe", "bert", line(5))
    found = observations.known_batches([str(tmp_path)], kind)["bert"]
    assert [each.batch for each in found.observations] == [4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: {observations: [{batch_size: 8}]}", "a: 'memory' is missing"),
        ("a: {observations: [{batch_size: 8, memory: much}]}", "no size"),
        ("a: {observations: [{batch_size: x, memory: 8}]}", "invalid literal"),
        ("- 1", "should be benchmarks"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path, content, message):
    (tmp_path / "default.yaml").write_text(content)
    with pytest.raises(UserError, match=message) as error:
        observations.known_batches([str(tmp_path)], "X")
    assert "default.yaml" in str(error.value)


def test_a_folder_that_is_not_there_knows_nothing(tmp_path):
    assert observations.known_batches([str(tmp_path / "none")], "X") == {}


def test_what_is_written_is_read_and_what_was_there_stays(tmp_path):
    folder, kind = str(tmp_path / "sizing"), "AMD Instinct MI325 OAM"
    path = observations.add_observations(folder, kind, "bert", line(8, 16, rate=lambda b: 10.0 * b))
    assert path.endswith("AMD-Instinct-MI325-OAM.yaml")
    observations.add_observations(folder, kind, "other", line(1))
    observations.add_observations(
        folder, kind, "bert", BatchObservations((Observation(16, GIB, 5.0),), (Limit(32, GIB),))
    )
    found = observations.known_batches([folder], kind)
    assert set(found) == {"bert", "other"}
    assert [(each.batch, each.rate) for each in found["bert"].observations] == [(8, 80), (16, 5)]
    assert found["bert"].limits == (Limit(32, GIB),)
    observations.add_observations(folder, kind, "bert", line(64))
    assert observations.known_batches([folder], kind)["bert"].limits == (), "64 fits, so 32 does"
    text = (tmp_path / "sizing" / "AMD-Instinct-MI325-OAM.yaml").read_text()
    assert "{batch_size: 8, memory: 10240.00 MiB, perf: 80.0" in text


def test_what_others_wrote_into_a_file_stays(tmp_path):
    path = tmp_path / "cpu.yaml"
    path.write_text(FIRST.replace("arg: --batch-size", "arg: --bs"))
    observations.add_observations(str(tmp_path), "cpu", "bert", line(2))
    written = yaml.safe_load(path.read_text())
    assert (written["device"], written["version"]) == ("cpu", 1.0)
    assert (written["bert"]["arg"], written["bert"]["optimized"]) == ("--bs", 128)
    assert [each["batch_size"] for each in written["bert"]["observations"]] == [1, 2, 8]
    assert "model" not in written["bert"]


def test_two_that_write_at_once_lose_nothing(tmp_path):
    def write(name):
        for batch in range(1, 11):
            observations.add_observations(str(tmp_path), "cpu", name, line(batch))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = observations.known_batches([str(tmp_path)], "cpu")
    assert {name: len(each.observations) for name, each in found.items()} == dict.fromkeys(
        "abcd", 10
    )


def test_a_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--sizing names another folder"):
        observations.add_observations(str(tmp_path / "file" / "sizing"), "cpu", "a", line(1))


# --- what follows


def test_the_line_is_read_at_the_capacity():
    known = line(4, 8, 16)  # 2 GiB + 1 GiB a batch
    assert batch_sizes.largest(known, 22 * GIB, margin=0) == 20
    assert batch_sizes.largest(known, 22 * GIB, multiple=8, margin=0) == 16
    assert batch_sizes.largest(known, 22 * GIB, power=2, margin=0) == 16
    assert batch_sizes.largest(known, 22 * GIB, margin=0.5) == 9
    assert batch_sizes.largest(known, 12 * GIB, margin=0) == 10


def test_nothing_is_reported_without_an_observation_that_fits():
    assert batch_sizes.largest(BatchObservations(), GIB) is None
    assert batch_sizes.largest(line(8), GIB) is None
    assert batch_sizes.largest(line(8), 80 * GIB) == 8, "of one there is no line"


def test_memory_that_does_not_grow_says_nothing_of_larger_batches():
    assert batch_sizes.largest(line(8, 16, 32, slope=0), 80 * GIB) == 32


def test_a_line_is_not_believed_too_far():
    assert batch_sizes.largest(line(1, 2), 1000 * GIB) == 2 * batch_sizes.REACH


def test_what_did_not_fit_is_never_chosen():
    known = line(4, 8)._replace(limits=(Limit(12, 80 * GIB),))
    assert batch_sizes.largest(known, 80 * GIB) == 11
    small = line(4, 8)._replace(limits=(Limit(12, 2 * GIB),))
    assert batch_sizes.largest(small, 80 * GIB) == 16, "that was a smaller device"


def test_observations_that_scatter_are_taken_from_above():
    """milabench's default.yaml has batches that took 475 MiB, by a mistake."""
    good = [Observation(b, 2 * GIB + GIB * b) for b in (1, 4, 8, 32, 64)]
    odd = [Observation(2, 475.0 * MIB), Observation(16, 475.0 * MIB)]
    found = batch_sizes.largest(BatchObservations(tuple(sorted(good + odd))), 80 * GIB, margin=0)
    assert 64 <= found <= 78


def test_the_fastest_that_fits():
    known = line(8, 16, 32, 64, rate=lambda b: {8: 1.0, 16: 9.0, 32: 5.0, 64: 99.0}[b])
    assert batch_sizes.fastest(known, 40 * GIB) == 16
    assert batch_sizes.fastest(known, 80 * GIB) == 64
    assert batch_sizes.fastest(known, 4 * GIB) is None
    assert batch_sizes.fastest(line(8), 40 * GIB) is None, "nothing is known of rates"
    assert batch_sizes.fastest(known._replace(limits=(Limit(64, 80 * GIB),)), 80 * GIB) == 16


@pytest.mark.parametrize(
    ("batch", "multiple", "power", "found"),
    [(37, 8, None, 32), (37, None, 2, 32), (64, None, 2, 64), (5, 8, None, 5), (1, None, 2, 1),
     (1000, None, 10, 1000), (999, None, 10, 100), (243, None, 3, 243), (37, None, None, 37)],
)  # fmt: skip
def test_rounding_down(batch, multiple, power, found):
    assert batch_sizes.rounded(batch, multiple, power) == found


batches = st.lists(st.integers(1, 2000), min_size=1, max_size=12, unique=True)


@given(batches, st.floats(0.001, 8), st.floats(0, 20), st.floats(1, 400), st.integers(1, 16))
def test_never_more_than_memory_allows(sizes, slope, begin, capacity, multiple):
    known = line(*sorted(sizes), slope=slope * GIB, begin=begin * GIB)
    found = batch_sizes.largest(known, capacity * GIB, multiple=multiple, margin=0)
    if found is not None:
        assert (begin + slope * found) * GIB <= capacity * GIB * (1 + 1e-9)


scattered = st.lists(
    st.tuples(st.integers(1, 500), st.floats(1, 80)), min_size=1, max_size=12,
    unique_by=lambda each: each[0],
)  # fmt: skip


@given(scattered, st.floats(1, 100))
def test_never_as_large_as_what_was_too_large(found, capacity):
    known = BatchObservations(tuple(sorted(Observation(b, m * GIB) for b, m in found)))
    chosen = batch_sizes.largest(known, capacity * GIB, margin=0)
    refused = [b for b, m in found if m > capacity]
    if chosen is not None:
        assert chosen < min(refused, default=chosen + 1)


# --- what --batch does


def benchmark(name="bert", **settings):
    return Benchmark(name, Where("s.yaml", 1), settings, family=name.partition("-")[0])


BATCH = {"arg": "--batch-size", "default": 64, "multiple": 8}


def test_the_argument_is_set_and_auto_batch_means_it():
    known = {"bert": line(4, 8, 16)}
    chosen = BatchSizer("auto", "X", 30 * GIB, known)
    bert = benchmark(batch=BATCH, argv={"--lr": 1, "--batch-size": 64})
    assert chosen.sized(bert).settings["argv"] == {"--lr": 1, "--batch-size": 24}
    assert chosen.resize(bert)(64) == 24
    listed = benchmark(batch=BATCH, argv=["--batch-size", 64, "--lr", 1])
    assert chosen.sized(listed).settings["argv"] == ["--lr", 1, "--batch-size", 24]
    assert chosen.sized(benchmark(argv={})).settings["argv"] == {}
    assert chosen.size(benchmark("bert-3", batch=BATCH)) == 24, "one of a matrix"


def test_what_nothing_is_known_of_keeps_its_batch():
    chosen = BatchSizer("auto", "X", 30 * GIB, {})
    bert = benchmark(batch=BATCH)
    assert chosen.sized(bert) is bert and chosen.resize(bert)(64) == 64
    auto = benchmark("auto", argv={"--bs": "auto_batch(16)"})
    suite = Suite("s", Path("s.yaml"), (bert, auto, benchmark("fixed")))
    assert chosen.left(suite) == ["bert", "auto"]


def test_a_number_is_for_all_and_nonsense_is_refused():
    assert BatchSizer("12").sized(benchmark(batch=BATCH)).settings["argv"] == {"--batch-size": 12}
    assert BatchSizer("12").resize(benchmark())(64) == 12
    for how in ("auto", "fastest", "7"):
        assert batch_sizes.checked_option(how) == how
    for how in ("0", "-3", "many", "1.5", "", "٣"):
        with pytest.raises(UserError, match="auto, fastest"):
            batch_sizes.checked_option(how)


def test_the_size_that_it_was_written_with():
    assert batch_sizes.default_of(benchmark(batch=BATCH)) == 64
    assert batch_sizes.default_of(benchmark(batch={"arg": "-b"}, argv={"-b": 12})) == 12
    assert batch_sizes.default_of(benchmark(argv={"-b": "auto_batch( 16 )"})) == 16
    assert batch_sizes.default_of(benchmark(argv={"-b": ["x"]})) == 1


# --- which are tried


def probing(limit, capacity=None, slope=GIB, **more):
    """What a search tries on a device where batches up to ``limit`` fit."""
    search = Search(capacity=capacity, **more)

    def probe(batch):
        fits = batch <= limit
        return TrialRun(batch, fits, 2 * GIB + slope * batch if fits else None, float(batch))

    search.run(probe)
    return search


def test_doubling_then_between():
    search = probing(45, start=8)
    assert [each.batch for each in search.probes] == [8, 16, 32, 64, 48, 40, 44, 46]
    search = probing(45, start=8, multiple=4)
    assert [each.batch for each in search.probes] == [8, 16, 32, 64, 48, 40, 44]
    search = probing(45, start=100, power=2)
    assert [each.batch for each in search.probes] == [64, 32]


def test_halving_where_the_first_does_not_fit():
    assert [each.batch for each in probing(3, start=16).probes] == [16, 8, 4, 2, 3]
    assert [each.batch for each in probing(0, start=4).probes] == [4, 2, 1]


def test_on_a_processor_nothing_is_tried_that_is_expected_not_to_fit():
    search = probing(10**9, start=4, capacity=22 * GIB, careful=True)
    tried = [each.batch for each in search.probes]
    assert tried == [4, 8, 16, 18]
    assert all((2 + batch) * GIB <= 22 * GIB for batch in tried)
    bold = probing(20, start=4, capacity=22 * GIB)
    assert max(each.batch for each in bold.probes) == 32


def test_one_probe_that_takes_half_of_all_is_enough():
    search = probing(10**9, start=16, capacity=30 * GIB, careful=True)
    assert [each.batch for each in search.probes] == [16]


def test_on_a_processor_a_batch_is_doubled_where_memory_does_not_grow_with_it():
    search = probing(40, start=4, capacity=22 * GIB, careful=True, slope=-GIB // 1000)
    assert [each.batch for each in search.probes] == [4, 8, 16, 32, 64, 48, 40, 44, 42]
    full = probing(40, start=4, capacity=3 * GIB, careful=True, slope=-GIB // 1000)
    assert [each.batch for each in full.probes] == [4], "twice its memory is more than there is"


@given(st.integers(1, 3000), st.integers(1, 300), st.integers(1, 16), st.booleans())
def test_what_a_search_finds_fits_and_is_close(limit, start, multiple, careful):
    capacity = (limit + 2) * GIB
    search = probing(limit, start=start, multiple=multiple, capacity=capacity, careful=careful,
                     most=40)  # fmt: skip
    fits = [each.batch for each in search.probes if each.fits]
    assert len({each.batch for each in search.probes}) == len(search.probes)
    if not fits:
        assert batch_sizes.rounded(start, multiple) > limit
        return
    chosen = batch_sizes.largest(search.known(), capacity, multiple, margin=0)
    assert chosen <= limit
    if not careful:
        assert max(fits) + max(max(fits) / 16, multiple) * 2 >= limit
    assert search.known().observations == tuple(sorted(search.known().observations))


def test_a_failure_that_no_other_batch_would_mend_ends_it():
    search = Search(8)

    def probe(batch):
        if batch > 10:
            raise TrialError("exit code 1: ValueError")
        return TrialRun(batch, True, GIB, 1.0)

    with pytest.raises(TrialError):
        search.run(probe)
    assert [(each.batch, each.fits) for each in search.probes] == [(8, True), (16, False)]
    assert search.known().limits == ()
    with_capacity = Search(8, capacity=80 * GIB)
    with pytest.raises(TrialError):
        with_capacity.run(probe)
    assert with_capacity.known().limits == (Limit(16, 80 * GIB),), "16 is not to be chosen"


@pytest.mark.parametrize(
    ("ended", "text", "full"),
    [
        ({"code": 1}, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", True),
        ({"code": 1}, "torch.cuda.OutOfMemoryError: HIP out of memory", True),
        ({"code": 1}, "MemoryError", True),
        ({"code": 1}, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 GiB", True),
        (
            {"code": 1},
            "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory",
            True,
        ),
        (
            {"code": 1},
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes",
            True,
        ),
        ({"code": 1}, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", True),
        ({"code": 1}, "  exitcode  : -9 (pid: 7)", True),
        ({"signal": 6}, "terminate called after throwing an instance of 'std::bad_alloc'", True),
        ({"signal": 9}, "", True),
        ({"signal": 11}, "", False),
        ({"code": 1}, "ValueError: batch is odd", False),
        ({"code": 0}, "recovered from an out of memory error", False),
        ({"code": 124, "timed_out": True}, "MemoryError", False),
    ],
)
def test_out_of_memory_in_every_way(tmp_path, ended, text, full):
    (tmp_path / "stderr").write_text(f"Traceback\n{text}\n")
    process = ProcessSummary("k", "b", folder=str(tmp_path), record=RunRecord(), **ended)
    assert bool(search.out_of_memory_line(process)) == full


def test_what_is_known_beside_a_suite_and_where_that_lies(tmp_path):
    (tmp_path / "s.yaml").write_text("")
    suite = Suite("s", tmp_path / "s.yaml", ())
    assert batch_sizes.folder_of(suite) == str(tmp_path / "sizing")
