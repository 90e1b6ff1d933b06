"""``--track`` with trackers that fail: whichever of them and however, the run is what it is without."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest

from injector.analysis.views import views
from injector.store.folder import open_run

# Not imported: that takes longer than most tests, in each process of tests.
for name in ("mlflow", "wandb", "tensorboard", "prometheus_client", "opentelemetry.exporter"):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

# Longer than it takes until trackers are sent something, where that is to fail on the way.
PROGRAM = """
import sys, time
for at in range({turns}):
    loss = 10.0 - at
    time.sleep(0.1)
print("end")
sys.exit(3)
"""
VOIRFILE = 'def instrument_all(ov):\n    ov.value("// > loss")\n'
SERVED = ("mlflow", "otel", "prometheus")


class Server:
    """Answers in a wrong way: ``refuses``, ``dies`` after some answers, ``slow``, ``silent``."""

    def __init__(self, how):
        left, over = [1], threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                left[0] -= 1
                if how == "silent" or (how == "dies" and left[0] < 0):
                    over.wait(300 if how == "silent" else 0)
                    return  # without an answer
                if how == "slow":
                    time.sleep(5)
                self.send_response(403 if how == "refuses" else 200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_PUT = do_DELETE = do_PATCH = do_POST

            def log_message(self, *_):
                pass

        self._over = over
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._over.set()
        self._server.shutdown()
        self._server.server_close()


def run(folder, places, turns=3, before="", code=3, options=()):
    """A program tracked by all of ``places``: as it is where trackers work, which it says."""
    (folder / "train.py").write_text(PROGRAM.format(turns=turns))
    (folder / "x.py").write_text(VOIRFILE)
    words = [sys.executable, "-m", "injector", "run", "--into", "r", "--voirfile", "x.py", *options]
    words += [word for tool, place in places.items() for word in ("--track", f"{tool}={place}")]
    command = [*words, "train.py"]
    if before:
        command = ["unshare", "-rm", "sh", "-c", f'{before}; "$@"', "sh", *command]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "end\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert views(open_run(str(folder / "r")))["values"]()["value"] == [
        10.0 - at for at in range(turns)
    ]
    return done.stderr


def said_of(err):
    """The trackers of which the run says how to export it later."""
    found = [line for line in err.splitlines() if "inject export --to" in line]
    return sorted({line.partition("--to ")[2].partition("`")[0] for line in found})


@pytest.mark.parametrize(
    "how",
    [
        "refuses",
        pytest.param("away", marks=pytest.mark.release),
        pytest.param("dies", marks=pytest.mark.release),
        pytest.param("slow", marks=pytest.mark.release),
        pytest.param("silent", marks=pytest.mark.release),
    ],
)
def test_a_server_that_fails(how, tmp_path):
    with ExitStack() as servers:
        places = {tool: servers.enter_context(closing(Server(how))).address for tool in SERVED}
        if how == "away":
            servers.close()
        err = run(tmp_path, places, turns=80 if how == "dies" else 3)
    # What only takes long is taken in the end; MLflow's client makes nothing of such answers.
    assert said_of(err) == (["mlflow"] if how == "slow" else sorted(SERVED)), err


FILES = {
    "mlflow": "sqlite:///{}/m.db",
    "prometheus": "{}/x.prom",
    "tensorboard": "{}/logs",
    "wandb": "{}/w",
}


def test_a_place_that_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    err = run(tmp_path, {tool: place.format("file/x") for tool, place in FILES.items()})
    assert said_of(err) == sorted(FILES), err


@pytest.mark.parametrize(("place", "code"), [("file/x", 70), ("x.prom", 3)])
def test_a_tracker_that_takes_nothing_at_the_end_is_a_failure_under_strict(place, code, tmp_path):
    """The program is over before it is sent anything."""
    (tmp_path / "file").write_text("")
    run(tmp_path, {"prometheus": str(tmp_path / place)}, code=code, options=("--strict",))


@pytest.mark.release
def test_no_room_on_the_disk(tmp_path):
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=4k", "none", "/mnt"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    (tmp_path / "small").mkdir()
    before = "mount -t tmpfs -o size=4k,nr_inodes=6 none small"
    places = {tool: place.format("small") for tool, place in FILES.items()}
    err = run(tmp_path, places, before=before)
    assert said_of(err) == sorted(FILES), err
    assert not os.listdir(tmp_path / "small")
