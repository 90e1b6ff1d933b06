"""Options of voirfiles: groups, dataclasses, YAML, and what is said of mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from injector.cli.help import run_help
from injector.errors import UserError
from injector.overseer.options import Options, read_config


@dataclass
class Training:
    # how long to train
    epochs: int
    rate: float = 0.1  # learning rate
    use_amp: bool = False
    """mixed precision"""
    name: str | None = None
    sizes: list = field(default_factory=lambda: [1])


def options(model=Training, layer="x.py", **how):
    result = Options()
    result.of(layer).add_from_model("training", model, **how)
    return result


def parsed(declared, *groups, layer="x.py"):
    return declared.parse(groups)[layer]


def test_fields_become_options():
    found = parsed(options(), ["--epochs", "3"], ["--use-amp"], ["--rate", "0.5"], ["--name=n"])
    assert found.training == Training(3, 0.5, True, "n")


def test_no_turns_a_flag_off():
    found = parsed(options(Training(1, use_amp=True)), ["--no-use-amp"])
    assert found.training.use_amp is False


def test_unflattened_options_carry_the_models_name():
    found = parsed(options(flatten=False), ["--training.epochs", "2"])
    assert found.training == Training(2)


def test_a_missing_required_field_is_reported():
    with pytest.raises(UserError, match=r"x\.py: .*--epochs"):
        options().parse([])


def test_a_wrong_value_is_a_user_error():
    with pytest.raises(UserError, match=r"x\.py: .*invalid int value"):
        options().parse([["--epochs", "many"]])


def test_help_shows_the_voirfiles_groups_and_the_comments():
    declared = options(layer="a.py")
    declared.of("b.py").add_argument("--b-flag", action="store_true")
    text = run_help(declared)
    shown = ("options of a.py", "how long to train", "learning rate", "mixed precision")
    for words in (*shown, "options of b.py", "--b-flag"):
        assert words in text
        text = text[text.index(words) :]


@dataclass
class Other:
    rate: int = 7
    more: int = 0


def test_two_voirfiles_that_declare_the_same_both_get_it():
    """Also under the name by which they find it, each in its own type."""
    declared = options(Training(1))
    declared.of("y.py").add_from_model("training", Other)
    declared.of("z.py").add_argument("--rate", action="store_true")
    found = declared.parse([["--rate", "3"], ["--more", "2"]])
    assert found["x.py"].training == Training(1, 3.0)
    assert found["y.py"].training == Other(3, 2)
    assert found["z.py"].rate is True and found["z.py"].training in (Training(1, 3.0), Other(3, 2))
    assert declared.nargs()["--rate"] is None


def test_where_nothing_is_declared_twice_all_share_one_namespace():
    declared = options(Training(1))
    declared.of("y.py").add_argument("--more", type=int)
    found = declared.parse([["--more", "2"]])
    assert found["x.py"] is found["y.py"]
    assert (found["x.py"].more, found["x.py"].training) == (2, Training(1))


def test_an_option_that_no_voirfile_declares_is_another_s():
    assert parsed(options(), ["--epochs", "1"], ["--stop", "3"]).training == Training(1)


def test_a_config_sets_options_and_models_and_the_command_line_wins():
    declared = Options()
    declared.merge_base_config({"training": {"epochs": 5, "rate": 0.2}, "log-every": 7}, "my.yaml")
    declared.of("x.py").add_argument("--log-every", type=int, default=1)
    declared.of("x.py").add_from_model("training", Training)
    declared.of("y.py").add_argument("--log-every", type=str)
    found = declared.parse([["--rate", "0.9"]])
    assert found["x.py"].training == Training(5, 0.9)
    assert found["x.py"].log_every == found["y.py"].log_every == 7


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"trainng": {}}, r"'trainng'; did you mean 'training' of x.py\?"),
        ({"training": {"epoch": 1}}, r"'epoch'; did you mean 'epochs' of x.py\?"),
        ({"zzz": 1}, "'zzz'; declared are, by x.py: epochs, .*; by y.py: more"),
        ({"training": {"zzz": 1}}, "'zzz'; declared are, by x.py: epochs, name, rate, sizes"),
    ],
)
def test_a_key_that_no_voirfile_declares_names_the_nearest_or_all(config, words):
    declared = Options()
    declared.merge_base_config(config, "my.yaml")
    declared.of("x.py").add_from_model("training", Training)
    declared.of("y.py").add_argument("--more")
    with pytest.raises(UserError, match=f"my.yaml: .*no voirfile declares .*{words}"):
        declared.parse([["--epochs", "1"]])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"epochs": "many"}, "my.yaml: epochs: invalid int value: 'many' .an option of x.py"),
        ({"epochs": 2.5}, "my.yaml: epochs: invalid int value: '2.5'"),
        ({"epochs": True}, "invalid int value: 'True'"),
        ({"level": 9}, "my.yaml: level: invalid choice: 9"),
        ({"use-amp": "yes"}, "my.yaml: use-amp: true or false, not 'yes'"),
        ({"training": {"epochs": "x"}}, "my.yaml: training: epochs: invalid int value: 'x'"),
        ({"training": {"epochs": 1, "use_amp": 1}}, "training: use_amp: true or false, not 1"),
    ],
)
def test_a_value_of_a_config_is_checked_as_on_the_command_line(config, words):
    with pytest.raises(UserError, match=words):
        declared = Options()
        declared.merge_base_config(config, "my.yaml")
        declared.of("x.py").add_argument("--level", type=int, choices=(1, 2))
        declared.of("x.py").add_from_model("training", Training)
        declared.parse([["--epochs", "1"]])


def test_values_of_a_config_have_the_types_of_the_command_line():
    declared = Options()
    config = {
        "training": {"epochs": 2, "rate": 1, "sizes": [3]},
        "levels": ["1", 2],
        "use-amp": True,
    }
    declared.merge_base_config(config, "my.yaml")
    declared.of("x.py").add_argument("--levels", type=int, nargs="*")
    declared.of("x.py").add_from_model("training", Training)
    found = parsed(declared)
    assert found.training == Training(2, 1.0, True, sizes=[3]) and found.levels == [1, 2]
    assert isinstance(found.training.rate, float)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [", "is no YAML"), ("- a", "must be a mapping"), (None, "cannot be read")],
)
def test_a_config_that_is_none(text, words, tmp_path):
    path = tmp_path / "c.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_config(str(path))


def test_an_empty_config_is_fine(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("")
    assert read_config(str(path)) == {}
