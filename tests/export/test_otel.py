"""Runs sent over OTLP: to a receiver made of OpenTelemetry's classes, and through a collector."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest
from spans import site, write_process, write_run

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from collector import Receiver, agent, collecting, free_port


@pytest.fixture(scope="module")
def kept():
    return Receiver()


@pytest.fixture
def receiver(kept):
    kept.clear()
    return kept


def attributes(span):
    return {each.key: each.value for each in span.attributes}


def check(receiver):
    """Whether it has the run of the fixture ``runs``."""
    metrics = receiver.metrics()
    assert metrics["injector.train.step_time"][0] == "s"
    assert [value for _, value in metrics["injector.loss"][1]] == [10.0 - at for at in range(10)]
    assert [value for _, value in metrics["injector.train.steps"][1]] == [10]
    spans = receiver.spans()
    [root] = [span for span in spans if not span.parent_span_id]
    assert attributes(root)["team"].string_value == "vision"
    assert attributes(root)["injector.param.lr"].string_value == "0.1"
    assert "--api-key=***" in attributes(root)["injector.command"].string_value
    assert all(b"--api-key=k" not in span.SerializeToString() for span in spans)
    by_name = Counter(span.name for span in spans)
    assert by_name["train step"] == by_name["forward"] == 10
    steps = {span.span_id: span for span in spans if span.name == "train step"}
    numbers = sorted(attributes(span)["injector.step"].int_value for span in steps.values())
    assert numbers == list(range(10))
    for span in spans:
        if span.name == "forward":
            step = steps[span.parent_span_id]
            assert step.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= step.end_time_unix_nano
        assert span.trace_id == root.trace_id
        assert root.start_time_unix_nano <= span.start_time_unix_nano < root.end_time_unix_nano
    times = [time for time, _ in metrics["injector.loss"][1]]
    assert root.start_time_unix_nano < times[0] < times[-1] < root.end_time_unix_nano


def test_a_run_is_metrics_and_a_trace(runs, export, receiver):
    done = export(runs, "LAST", "--to", "otel", "--uri", receiver.uri, "--project", "mine")
    assert done.returncode == 0, done.stderr
    [trace] = re.findall(r"trace (\w{32}), to", done.stdout)
    assert {span.trace_id.hex() for span in receiver.spans()} == {trace}
    resource = receiver.received["/v1/traces"][0].resource_spans[0].resource
    assert attributes(resource)["service.name"].string_value == "mine"
    check(receiver)


def test_what_overlaps_is_whole(export, receiver, tmp_path):
    sites = [site(1, "load", line=3), site(2, "compute", line=4), site(3, "step", line=2)]
    spans = [(0, 208, 0, 1), (106, 314, 0, 2), (0, 400, 0, 3)]
    write_process(
        tmp_path / "r", sites, [*spans, *((a + 400, b + 400, 0, n) for a, b, _, n in spans)]
    )
    write_run(tmp_path / "r")
    done = export(tmp_path, "r", "--to", "otel", "--uri", receiver.uri)
    assert done.returncode == 0, done.stderr
    found = [one for one in receiver.spans() if one.name in ("load", "compute")]
    lengths = [one.end_time_unix_nano - one.start_time_unix_nano for one in found]
    steps = {one.span_id for one in receiver.spans() if one.name == "train step"}
    assert lengths == [208] * 4 and {one.parent_span_id for one in found} <= steps


def test_through_a_collector(runs, export, receiver):
    command = agent()
    if command is None:
        pytest.skip("no collector: the package rotel is not installed, or finds no libpython")
    with collecting(receiver, command) as uri:
        done = export(runs, "LAST", "--to", "otel", "--uri", uri)
        assert done.returncode == 0, done.stderr
        while not (receiver.spans() and "injector.train.steps" in receiver.metrics()):
            time.sleep(0.1)
    check(receiver)


def test_a_suite_is_a_trace_for_each_run(suite, export, receiver, tmp_path):
    done = export(tmp_path, str(suite), "--to", "otel", "--uri", receiver.uri)
    assert done.returncode == 0, done.stderr
    roots = {span.name: span for span in receiver.spans() if not span.parent_span_id}
    assert set(roots) == {"small small.R0.D0", "fails fails.R0.D0"}
    assert (
        roots["fails fails.R0.D0"].status.code == 2 and roots["small small.R0.D0"].status.code == 0
    )
    assert len({span.trace_id for span in receiver.spans()}) == 2


def test_long_runs_are_thinned_with_what_stands_out(large, export, receiver, tmp_path):
    words = ("--to", "otel", "--uri", receiver.uri, "--points", "50")
    assert export(tmp_path, str(large), *words).returncode == 0
    steps = [span for span in receiver.spans() if span.name == "train step"]
    assert 0 < len(steps) <= 2 * 50
    longest = max(steps, key=lambda span: span.end_time_unix_nano - span.start_time_unix_nano)
    points = [
        value
        for name, (_, points) in receiver.metrics().items()
        if name.startswith("injector.train.step_time.rank")
        for _, value in points
    ]
    seconds = (longest.end_time_unix_nano - longest.start_time_unix_nano) / 1e9
    assert seconds == pytest.approx(max(points), rel=1e-3)


def test_a_collector_that_is_away(runs, export, monkeypatch):
    monkeypatch.setattr("injector.export.otel.TIMEOUT", 3.0)
    uri = f"http://127.0.0.1:{free_port()}"
    done = export(runs, "LAST", "--to", "otel", "--uri", uri)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inject: the collector at {uri} did not take it: ")
    assert "did not take it: Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
