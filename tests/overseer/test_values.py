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


def test_an_object_without_a_number_or_a_text_is_a_mistake_of_the_voirfile(inject):
    """Its text would be an address. The line to change is named; other values are recorded."""
    run = inject(
        """
        class Meter:
            value = 3.0

        class Total(Meter):
            def __float__(self):
                return self.value

        class Named(Meter):
            def __repr__(self):
                return "three"

        def main():
            for turn in range(2):
                meter, total, named, label = Meter(), Total(), Named(), "c"
            return {"one": meter, "other": total}

        main()
        """,
        """
        def instrument_a(ov):
            ov.value("//main > meter")
            ov.value("//main > total")
            ov.value("//main > named")
            ov.value("//main > label")
            ov.value("//main", get=lambda result: result)
        """,
    )
    assert run.exit == 0, run.err
    found = {}
    for data in run.events("data"):
        for name in {"meter", "total", "named", "label", "one", "other"} & data.keys():
            found.setdefault(name, []).append(data[name])
    assert found == {
        "total": 2 * [3.0],
        "named": 2 * ["three"],
        "label": 2 * ["'c'"],
        "other": [3.0],
    }
    failures = run.record["failures"]
    assert [(each["where"].strip(), each["type"]) for each in failures] == [
        ("probe '//main > meter'", "NoNumberError"),
        ("probe '//main'", "NoNumberError"),
    ]
    traces = [each["trace"].splitlines()[-1] for each in failures]
    assert [trace.rpartition(", line ")[2] for trace in traces] == ["3", "7"]
