"""A receiver of OTLP over HTTP, of OpenTelemetry's own protobuf classes, and a collector in front of it."""

from __future__ import annotations

import gzip
import importlib.util
import os
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Keeps what it is sent."""

    def __init__(self):
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

        kinds = {
            "/v1/metrics": metrics.ExportMetricsServiceRequest,
            "/v1/traces": traces.ExportTraceServiceRequest,
        }
        received = self.received = {path: [] for path in kinds}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                received[self.path].append(kinds[self.path].FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def clear(self):
        for each in self.received.values():
            each.clear()

    def metrics(self):
        """The points of each metric, with its unit."""
        found = {}
        for request in self.received["/v1/metrics"]:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        points = found.setdefault(metric.name, (metric.unit, []))[1]
                        points += [
                            (p.time_unix_nano, p.as_double) for p in metric.gauge.data_points
                        ]
        return found

    def spans(self):
        return [
            span
            for request in self.received["/v1/traces"]
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def agent():
    """The command of the collector that the package rotel ships; None without it.

    It is linked to a libpython, which a Python that was built without it does not have.
    """
    found = importlib.util.find_spec("rotel")
    path = os.path.join(os.path.dirname(found.origin), "rotel-agent") if found else ""
    if not os.path.exists(path):
        return None
    return (
        path if subprocess.run([path, "--version"], capture_output=True).returncode == 0 else None
    )


@contextmanager
def collecting(receiver, command):
    """The address of a collector that passes on to ``receiver``."""
    port, grpc = free_port(), free_port()
    words = ["--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint"]
    words += [f"127.0.0.1:{grpc}", "--exporter", "otlp", "--otlp-exporter-protocol", "http"]
    words += ["--otlp-exporter-endpoint", receiver.uri]
    process = subprocess.Popen([command, "start", *words], stdout=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
