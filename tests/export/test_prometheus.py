"""Prometheus's text, read back by its own parser, and what a Pushgateway would receive."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families


def samples(text):
    return {
        (sample.name, sample.labels["name"]): (sample.value, sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures_on_standard_output(runs, export):
    done = export(runs, "LAST", "--to", "prometheus")
    assert done.returncode == 0, done.stderr
    found = samples(done.stdout)
    assert found["injector_train_steps", "train"][0] == 10
    assert found["injector_train_step_time_median_seconds", "train"][0] >= 0.001
    assert found["injector_train_throughput_items_per_second", "train"][0] > 0
    info = found["injector_run_info", "train"][1]
    assert (info["tag_team"], info["tag_injector_exit"]) == ("vision", "0")


def test_a_suite_is_one_file(suite, export, tmp_path):
    done = export(tmp_path, str(suite), "--to", "prometheus", "-o", "suite.prom")
    assert done.returncode == 0, done.stderr
    found = samples((tmp_path / "suite.prom").read_text())
    exits = {
        name: value
        for (metric, name), (value, _) in found.items()
        if metric == "injector_exit_code"
    }
    assert sorted(exits.values()) == [0, 3]


@pytest.fixture
def gateway():
    """A server that keeps what is sent to it."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, body.decode()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_pushgateway(gateway, runs, export):
    uri, received = gateway
    done = export(runs, "LAST", "--to", "prometheus", "--uri", uri)
    assert done.returncode == 0, done.stderr
    [(path, body)] = received
    assert path.startswith("/metrics/job/injector/run/train.")
    assert samples(body)["injector_train_steps", "train"][0] == 10


def test_a_pushgateway_that_is_away(runs, export):
    done = export(runs, "LAST", "--to", "prometheus", "--uri", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert (
        "the Pushgateway at http://127.0.0.1:9 did not take it: Connection refused\n" in done.stderr
    )
