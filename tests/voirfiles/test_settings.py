"""Settings of a training as parameters of the run."""

from __future__ import annotations

from injector.voirfiles._settings import MOST_SETTINGS, recorded_settings


def test_the_last_value_of_a_setting_counts_however_many_there_are() -> None:
    recorded: dict[str, object] = {}
    record = recorded_settings(recorded.__setitem__)
    many = {f"setting {at}": at for at in range(MOST_SETTINGS + 1)}
    assert record(many) is many
    assert len(recorded) == MOST_SETTINGS
    record({"setting 0": -1})
    assert recorded["setting 0"] == -1


def test_values_that_are_no_settings_are_left_out() -> None:
    recorded: dict[str, object] = {}
    record = recorded_settings(recorded.__setitem__)
    record(
        {
            "eta": 0.1,
            "metric": ["auc", "error"],
            "loss": len,
            " ": 1,
            3: 1,
            "rows": [[1]],
            "x": None,
        }
    )
    assert recorded == {"eta": 0.1, "metric": "auc,error", "loss": "len"}
    record("not a mapping")
    assert len(recorded) == 3
