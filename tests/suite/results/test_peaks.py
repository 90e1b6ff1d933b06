"""Which suite's product of matrices says what a device does at best."""

from __future__ import annotations

import pytest
from suitefolders import UNIX, SuiteFolder

from injector.suite.results.peaks import newest_peak, peak_of

MACHINE = {"host": "node7", "cpu": {"count": 2, "brand": "AMD EPYC"}}
DAYS = "synthetic.2026-11-22_10-00-00.000000", "synthetic.2026-11-24_10-00-00.000000"


def products(base, day, rates, tags=("synthetic", "flops"), **run):
    made = SuiteFolder(base / "runs" / DAYS[day], "synthetic")
    for precision, best in rates.items():
        made.benchmark(precision, tags, argv={"--dtype": precision})
        made.process(precision, [best / 2, best, best / 3], **run)
    made.write()


def test_the_newest_of_the_precision(tmp_path):
    products(tmp_path, 0, {"fp32": 90.0, "bf16": 300.0})
    products(tmp_path, 1, {"fp32": 80.0})
    found = newest_peak(str(tmp_path), MACHINE, "cpu", "fp32")
    assert found.flops == 80e9 and found.run.endswith(DAYS[1]) and found.started == UNIX
    assert found.source.startswith(f"the fastest fp32 product of {DAYS[1]} (20")
    assert newest_peak(str(tmp_path), MACHINE, "cpu", "bf16").flops == 300e9
    assert newest_peak(str(tmp_path), MACHINE, "cpu", "fp16") is None
    assert newest_peak(str(tmp_path / "nothing"), MACHINE, "cpu", "fp32") is None
    (tmp_path / "runs" / DAYS[1] / "plan.json").write_text('{"schema": 99}')  # of a later version
    assert newest_peak(str(tmp_path), MACHINE, "cpu", "fp32").flops == 90e9


@pytest.mark.parametrize(
    ("machine", "device"),
    [
        ({**MACHINE, "host": "node8"}, "cpu"),
        ({**MACHINE, "cpu": {"count": 64, "brand": "AMD EPYC"}}, "cpu"),
        (MACHINE, "NVIDIA H100 80GB HBM3"),
    ],
)
def test_of_no_other_machine(tmp_path, machine, device):
    products(tmp_path, 0, {"fp32": 90.0})
    assert newest_peak(str(tmp_path), machine, device, "fp32") is None


def test_a_device_by_its_model(tmp_path):
    made = SuiteFolder(tmp_path / "runs" / DAYS[0], "synthetic")
    keys = ("cuda:0", "cuda:1")
    made.plan["machine"] |= {
        "arch": "cuda",
        "devices": [{"key": key, "name": "H1"} for key in keys],
    }
    made.benchmark("bf16", ["flops"], argv={"--dtype": "bf16"})
    for slot, rate in enumerate((500.0, 510.0)):
        made.process("bf16", [rate], slot=slot, devices=[f"cuda:{slot}"])
    made.write()
    assert newest_peak(str(tmp_path), MACHINE, "H1", "bf16").flops == 510e9
    assert newest_peak(str(tmp_path), MACHINE, "H2", "bf16") is None
    assert newest_peak(str(tmp_path), MACHINE, "cpu", "bf16") is None


@pytest.mark.parametrize("run", [{"code": 1}, {"state": "planned"}])
def test_no_run_that_failed(tmp_path, run):
    products(tmp_path, 0, {"fp32": 90.0}, **run)
    products(tmp_path, 1, {"fp32": 95.0}, tags=("other",))
    assert newest_peak(str(tmp_path), MACHINE, "cpu", "fp32") is None


def test_the_peak_is_of_the_precision_of_most_operations(tmp_path):
    counted = {"precisions": {"fp32": 1, "bf16": 3}, "device": "cpu"}
    found = peak_of(str(tmp_path / "nothing"), MACHINE, counted)
    assert "peak" not in found and "--select bf16 --use-current-env" in found["no_peak"]
