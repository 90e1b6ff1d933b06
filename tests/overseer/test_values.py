"""Values found in calls: one, none, or several under names of their own."""

from __future__ import annotations


def test_a_mapping_is_a_value_of_each_name(inject):
    run = inject(
        """
        def log(metrics, step):
            return step

        log({"loss": 2.0, "rate": 0.5}, 1)
        log({"loss": 1.0, 3: 7}, 2)
        log(None, 3)
        log(9.0, 4)
        """,
        """
        def instrument_a(ov):
            ov.value("//log", task="train", get=lambda metrics: metrics)
            ov.value("//log", "even", get=lambda step, result: step if result % 2 == 0 else None)
        """,
    )
    assert run.exit == 0, run.err
    assert run.record["failures"] == run.record["misses"] == []
    values = [(data.get("task"), *data.items()) for data in run.events("data")]
    found = {}
    for data in run.events("data"):
        for name in ("loss", "rate", "3", "log", "even"):
            if name in data:
                found.setdefault(name, []).append((data.get("task"), data[name]))
    assert found == {
        "loss": [("train", 2.0), ("train", 1.0)],
        "rate": [("train", 0.5)],
        "3": [("train", 7.0)],
        "log": [("train", 9.0)],
        "even": [(None, 2.0), (None, 4.0)],
    }, values
