"""Each layer of validation: what it takes, what it refuses, and the number that it names."""

from __future__ import annotations

import json

import pytest
from suitefolders import GB, SuiteFolder, failures, only, state, write_run

from injector.suite.config.rules import NOTE, WARNING
from injector.suite.results import validation

SIX = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]


def found(path, rates=SIX, planned=("cpu:0",), **run):
    """The findings of one run; ``settings`` among ``run`` are the benchmark's."""
    settings = run.pop("settings", {})
    write_run(path / "run", rates, **run)
    return validation.check(settings, path / "run", planned)


def failing(path, **run):
    return [f"{each.layer}: {each.sentence}" for each in found(path, **run) if each.fails]


def of(findings, layer):
    return [each for each in findings if each.layer == layer]


def test_a_good_run_fails_nothing(tmp_path):
    assert failing(tmp_path, losses=[3.0] * 5 + [1.0] * 5) == []


# --- error


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ({"code": 3}, "exit code 3"),
        ({"code": None, "signal": 9}, "killed by SIGKILL"),
        ({"code": None, "signal": 64}, "killed by SIGRTMAX"),
        ({"code": None, "signal": 99}, "killed by signal 99"),
        ({"code": 124, "timed_out": True}, "ended by a time limit"),
        ({"code": None}, "how it ended is not known"),
        ({"collected": False}, "its record was never finished: what supervised it was killed"),
    ],
)
def test_how_it_ended(tmp_path, run, sentence):
    assert failing(tmp_path, **run) == [f"error: {sentence}"]


def test_the_time_limit_is_named(tmp_path):
    settings = {"max_duration": 600}
    assert failing(tmp_path, code=124, timed_out=True, settings=settings) == [
        "error: ended by its time limit of 600 s"
    ]


def test_a_folder_without_a_record_is_a_failure(tmp_path):
    [each] = [each for each in validation.check({}, tmp_path / "nothing") if each.fails]
    assert each.sentence == "it left no record"


def test_an_exception_is_shown_with_the_last_lines_of_its_trace(tmp_path):
    trace = "Traceback (most recent call last):\n" + "  File x\n" * 40 + "ValueError: bad\n"
    error = {"type": "ValueError", "message": "bad\nand more", "trace": trace}
    [each] = of(found(tmp_path, code=1, error=error), "error")
    assert each.sentence == "exit code 1: ValueError: bad"
    assert len(each.lines) == 12 and each.lines[-1] == "ValueError: bad"


def test_a_trace_is_looked_for_in_what_was_printed(tmp_path):
    stderr = """warming up
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 3, in <module>
[rank0]:     main()
[rank0]: RuntimeError: shape '[2]' is invalid
Traceback (most recent call last):
  File "run.py", line 1, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
===
"""
    [each] = of(found(tmp_path, code=1, stderr=stderr), "error")
    assert each.sentence == "exit code 1: RuntimeError: shape '[2]' is invalid"
    assert each.lines[0] == "Traceback (most recent call last):"


def test_without_a_trace_the_last_lines_are_shown(tmp_path):
    [each] = of(found(tmp_path, code=1, stderr="usage: x\n\nx: error: no such option\n"), "error")
    assert each.lines == ("usage: x", "x: error: no such option")
    [each] = of(found(tmp_path, code=1), "error")
    assert each.lines == ("usage: x", "x: error: no such option")


# --- rate


def test_as_many_rates_as_the_options_stop_at(tmp_path):
    settings = {"voir": {"options": {"stop": 60}}}
    few = "rate: 6 rates came, at least 60 were expected (voir.options.stop)"
    assert failing(tmp_path, settings=settings) == [few]
    assert failing(tmp_path, settings={"voir": {"options": {"stop": "60"}}}) == [few]
    assert failing(tmp_path, settings={"voir": {"options": {"stop": 6}}}) == []


def test_time_may_end_a_run_earlier(tmp_path):
    settings = {"voir": {"options": {"stop": 60, "max_duration": 5}}}
    assert failing(tmp_path, settings=settings) == []


def test_its_own_number_comes_first(tmp_path):
    settings = {"voir": {"options": {"stop": 60}}, "validation": {"rate": {"min": 7}}}
    few = "rate: 6 rates came, at least 7 were expected (validation.rate.min)"
    assert failing(tmp_path, settings=settings) == [few]


def test_no_rate_at_all_and_rates_of_nothing(tmp_path):
    assert failing(tmp_path, rates=[]) == ["rate: no rate came, at least 1 was expected"]
    assert failing(tmp_path, rates=[0.0] * 6) == ["rate: every rate is 0"]


def test_a_mean_of_rates_far_above_what_all_steps_come_to_is_a_warning(tmp_path):
    queued = [300.0, 500.0, 0.57, 400.0, 450.0, 350.0]
    [_, each] = of(found(tmp_path / "a", rates=queued), "rate")
    assert not each.ok and each.severity == WARNING
    assert "the mean of its rates, 340.1, is 120 times the rate of all its steps" in each.sentence
    for even in ([0.5, 10.0, 11.0, 12.0, 13.0, 14.0], [10.0, 11.0, 12.0, 13.0, 14.0, 60.0]):
        [each] = of(found(tmp_path / str(even[0]), rates=even), "rate")
        assert each.ok


# --- loss


def test_every_loss_is_a_number(tmp_path):
    losses = [1.0, "NaN", 0.5, "Infinity"]
    assert failing(tmp_path, losses=losses) == ["loss: 2 of 4 values of loss are not finite"]
    off = {"validation": {"loss": {"finite": False}}}
    assert failing(tmp_path, losses=losses, settings=off) == []


def test_a_loss_that_does_not_fall_is_a_warning_unless_requested(tmp_path):
    rising = [float(n) for n in range(30)]
    [each] = of(found(tmp_path, losses=rising), "loss")
    assert not each.ok and each.severity == WARNING
    assert each.sentence == (
        "loss did not fall: its median is 4.5 in the first 33 % of the run, 24.5 in the last"
    )
    entry = {"validation": {"loss": {"falls": True}}}
    assert len(failing(tmp_path, losses=rising, settings=entry)) == 1
    assert failing(tmp_path, losses=rising[::-1], settings=entry) == []
    never = {"validation": {"loss": {"falls": False}}}
    assert of(found(tmp_path, losses=rising, settings=never), "loss") == []


def test_noise_and_single_outliers_decide_nothing(tmp_path):
    entry = {"validation": {"loss": {"falls": True}}}
    falling = [10.0 - n / 10 + (3 if n % 2 else -3) for n in range(60)]
    falling[-1] = 1e6
    assert failing(tmp_path, losses=falling, settings=entry) == []
    assert failing(tmp_path, losses=[1.0, 2.0, 3.0], settings=entry) == [], "too few to tell"


def test_only_the_losses_that_are_named(tmp_path):
    entry = {"validation": {"loss": {"names": ["other_loss"], "falls": True}}}
    assert failing(tmp_path, losses=[float(n) for n in range(30)], settings=entry) == []


# --- usage


def test_a_device_that_idles_fails_with_the_number(tmp_path):
    settings = {"validation": {"usage": {"gpu_load_threshold": 0.5, "gpu_mem_threshold": 0.5}}}
    device = [state(load=0.31, used=8 * GB, total=80 * GB)] * 4
    assert failing(tmp_path, planned=("cuda:0",), devices=[device], settings=settings) == [
        "usage: gpu load 0.31, at least 0.50 is required",
        "usage: gpu memory 0.10, at least 0.50 is required",
    ]


def test_our_words_for_it_and_several_devices(tmp_path):
    settings = {"validation": {"usage": {"load": 0.5, "memory": 0.4}}}
    devices = [[state()] * 4, [state(load=0.2)] * 4]
    assert failing(tmp_path, planned=("cuda:0", "cuda:1"), devices=devices, settings=settings) == [
        "usage: device 1 (H1) load 0.20, at least 0.50 is required"
    ]


def test_on_a_processor_thresholds_of_devices_do_not_apply_and_that_is_reported(tmp_path):
    settings = {"validation": {"usage": {"load": 0.5}}}
    [each] = of(found(tmp_path, settings=settings), "usage")
    assert each.ok and each.severity == NOTE and "not applicable" in each.sentence


def test_a_device_that_no_one_watched_fails(tmp_path):
    settings = {"validation": {"usage": {"load": 0.5}}}
    assert failing(tmp_path, planned=("cuda:0",), settings=settings) == [
        "usage: the usage of cuda:0 is not known"
    ]


# --- planning


def test_all_ranks_have_to_train():
    from dataclasses import replace

    from injector.suite.config.rules import rules_of
    from injector.suite.results import checks
    from injector.suite.results.run_record import RunRecord
    from injector.suite.results.suite_summary import ProcessSummary

    def check(record, devices, settings=None, method="njobs"):
        settings = {"plan": {"method": method}, **(settings or {})}
        process = ProcessSummary("k", "b", devices=devices, record=record)
        rules = rules_of(settings, "planning")
        return [f.sentence for f in checks.check_planning(process, settings, rules) if not f.ok]

    whole = RunRecord(rates=(1.0,), ranks=2, world=2)
    two = ("cuda:0", "cuda:1")
    assert check(whole, two) == []
    assert check(replace(whole, ranks=1), two) == ["1 rank trained, 2 were planned"]
    assert check(whole, (*two, "cuda:2")) == ["2 ranks were started, 3 were planned"]
    assert check(whole, two, {"validation": {"planning": {"processes": 4}}}) == [
        "2 processes trained, 4 were planned"
    ]
    alone = RunRecord(rates=(1.0,), ranks=1)
    assert check(alone, two) == [], "one process may well use both"
    assert check(alone, ("cuda:0",), method="per_gpu") == []


def test_devices_that_one_process_should_have_used(tmp_path):
    settings = {"plan": {"method": "njobs"}}
    devices = [[state()] * 3, [state(load=0.0)] * 3]
    assert failing(tmp_path, planned=("cuda:0", "cuda:1"), devices=devices, settings=settings) == [
        "planning: 1 device was busy, 2 were planned"
    ]


# --- version


@pytest.mark.parametrize(
    ("wanted", "right"),
    [("2.13.0", True), ("2.13.0+cpu", True), ("2.13.*", True), ("2.12.*", False), ("2.13", False)],
)
def test_versions_of_packages(tmp_path, wanted, right):
    settings = {"validation": {"version": {"packages": {"Torch": wanted}}}}
    printed = failing(tmp_path, packages={"torch": "2.13.0+cpu"}, settings=settings)
    assert printed == ([] if right else [f"version: torch is 2.13.0+cpu, {wanted} is required"])


def test_what_the_origin_pins_and_what_was_locked(tmp_path):
    settings = {"origin": {"package": "My_Bench[fast]==1.2"}}
    assert failing(tmp_path, settings=settings) == [
        "version: my-bench is not installed, 1.2 is required"
    ]
    python = tmp_path / "bin/python"
    record = tmp_path / "inject-environment.json"
    record.write_text(json.dumps({"packages": {"A": "1", "b_c": "3"}}))
    processes = [{"argv": [str(python)]}]
    write_run(tmp_path / "run", SIX, packages={"a": "1", "b.c": "2"}, processes=processes)
    locked = validation.check({}, tmp_path / "run")
    assert [each.sentence for each in locked if each.fails] == ["b-c is 2, 3 is required"]
    off = {"validation": {"version": {"locked": False}}}
    assert not [each for each in validation.check(off, tmp_path / "run") if each.fails]


def test_the_driver(tmp_path):
    settings = {"validation": {"version": {"driver": "575.*"}}}
    assert failing(tmp_path, settings=settings) == [
        "version: the driver is not known, 575.* is required"
    ]
    devices = [[state()] * 2]
    assert failing(tmp_path, planned=("cuda:0",), devices=devices, settings=settings) == []
    settings = {"validation": {"version": {"driver": 560}}}
    assert failing(tmp_path, planned=("cuda:0",), devices=devices, settings=settings) == [
        "version: the driver is 575.51, 560 is required"
    ]


def test_repeats_with_other_packages_fail(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX, packages={"torch": "2.13.0", "numpy": "2"})
    made.process("a", SIX, repeat=1, packages={"torch": "2.12.1", "numpy": "2"})
    assert failures(only(made.read())) == [
        "version: not all of its runs had the same packages: torch 2.12.1 and 2.13.0"
    ]


# --- reproducibility


def test_repeats_that_do_not_agree_fail_with_the_number(tmp_path):
    made = SuiteFolder(tmp_path)
    made.benchmark("a", validation={"reproducibility": {"spread": 0.05}})
    made.process("a", [100.0] * 6)
    made.process("a", [120.0] * 6, repeat=1)
    # mean 110, sample std 14.14
    [printed] = failures(only(made.read()))
    assert printed == (
        "reproducibility: perf of 2 repeats spreads by 0.13, at most 0.05 is required"
    )
    assert only(made.read()).failures == 1


def test_without_a_request_it_is_a_warning(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", [100.0] * 6)
    made.process("a", [150.0] * 6, repeat=1)
    benchmark = only(made.read())
    assert benchmark.failures == 0
    assert [f.severity for f in benchmark.findings if not f.ok] == [WARNING]


def test_failed_repeats_and_sums_over_devices(tmp_path):
    made = SuiteFolder(tmp_path)
    made.benchmark("a", validation={"reproducibility": {"spread": 0.05}})
    for repeat, (first, second) in enumerate([(100.0, 50.0), (50.0, 100.0)]):
        made.process("a", [first] * 6, repeat=repeat, slot=0)
        made.process("a", [second] * 6, repeat=repeat, slot=1)
    made.process("a", [1.0] * 6, repeat=2, code=1)
    assert not [f for f in only(made.read()).findings if not f.ok]


# --- rules


@pytest.mark.parametrize("layer", [name for name in validation.RULES if name != "reproducibility"])
@pytest.mark.parametrize("off", [False, {"enabled": False}])
def test_each_layer_can_be_switched_off(tmp_path, layer, off):
    losses = ["NaN", *range(30)]
    run = {"code": 3, "losses": losses, "rates": [], "settings": {"validation": {layer: off}}}
    assert not of(found(tmp_path, **run), layer)


@pytest.mark.parametrize(
    ("layer", "run"),
    [
        ("error", {"code": 3}),
        ("rate", {"rates": []}),
        ("loss", {"losses": ["NaN"]}),
    ],
)
def test_each_layer_can_be_a_warning(tmp_path, layer, run):
    settings = {"validation": {layer: {"severity": "warning"}}}
    assert failing(tmp_path, settings=settings, **run) == []
    assert [f.severity for f in found(tmp_path, settings=settings, **run) if not f.ok] == [WARNING]


def test_the_lock_of_an_environment_is_found_by_its_interpreter(tmp_path):
    lock = {"packages": {"Num_Py": "2.4.6", "pytz": "2024.01"}}
    (tmp_path / "inject-environment.json").write_text(json.dumps(lock))
    argv = [{"argv": [str(tmp_path / "bin" / "python"), "x.py"]}]
    packages = {"num-py": "2.4.6", "pytz": "2024.1"}
    assert failing(tmp_path, processes=argv, packages=packages) == []
    packages["num-py"] = "2.5"
    assert failing(tmp_path, processes=argv, packages=packages) == [
        "version: num-py is 2.5, 2.4.6 is required"
    ]


def test_what_goes_wrong_with_a_probe_fails_the_benchmark(tmp_path):
    text = "probe '//main > loss' found nothing: did you mean lose?\n  here"
    warnings = [{"kind": "missed", "text": text}, {"kind": "auto-missed", "text": "x"}]
    assert failing(tmp_path, warnings=warnings) == [
        "error: probe '//main > loss' found nothing: did you mean lose?"
    ]
    lax = {"validation": {"error": {"strict": False}}}
    assert failing(tmp_path, warnings=warnings, settings=lax) == []


def test_lost_records_are_named_once(tmp_path):
    text = "3 records of process 1 on h were lost"
    warnings = [{"kind": "lost", "text": text + " (No space left on device)"}]
    processes = [{"pid": 1, "host": "h", "lost": 3}]
    assert failing(tmp_path, warnings=warnings, processes=processes) == [
        f"record: its record is damaged: {text}"
    ]


def test_what_was_not_reached_is_no_failure_of_a_run_that_was_stopped_on_purpose(tmp_path):
    warnings = [{"kind": "never-fired", "text": "//evaluate: never fired"}]
    whole = failing(tmp_path / "whole", warnings=warnings, stopped=False)
    assert whole == ["error: //evaluate: never fired"]
    assert failing(tmp_path / "stopped", warnings=warnings, stopped=True) == []


RANK = {"rank": 3, "attempt": 0, "kind": "died", "how": "exit code 3"}


def test_ranks_that_were_started_again_are_a_warning_and_no_failure(tmp_path):
    run = {
        "warnings": [{"kind": "ranks", "text": "rank 3 died"}, {"kind": "torn", "text": "torn"}],
        "broken": [{**RANK, "restarted": 1}, {**RANK, "rank": 2, "restarted": 1}],
    }
    assert failing(tmp_path / "again", **run) == ["error: torn"]
    [warning] = [f for f in found(tmp_path / "again", **run) if f.severity == WARNING]
    assert (warning.layer, warning.ok, warning.sentence) == ("error", False, "rank 3 died")
    run["broken"][1]["restarted"] = None
    assert failing(tmp_path / "once", **run) == ["error: rank 3 died", "error: torn"]
