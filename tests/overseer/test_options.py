"""Options of voirfiles: groups, dataclasses, YAML, and what is said of mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

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


def parser(layer="x.py", model=Training, **how):
    options = Options()
    options.layer = layer
    options.add_from_model("training", model, **how)
    return options


def test_fields_become_options():
    parsed = parser().parse(["--epochs", "3", "--use-amp", "--rate", "0.5", "--name", "n"])
    assert parsed.training == Training(3, 0.5, True, "n")


def test_no_turns_a_flag_off():
    assert parser(model=Training(1, use_amp=True)).parse(["--no-use-amp"]).training.use_amp is False


def test_unflattened_options_carry_the_models_name():
    assert parser(flatten=False).parse(["--training.epochs", "2"]).training == Training(2)


def test_a_missing_required_field_is_said():
    with pytest.raises(UserError, match="--epochs"):
        parser().parse([])


def test_help_shows_the_voirfiles_group_and_the_comments():
    text = parser().format_help()
    assert "options of x.py" in text
    for words in ("how long to train", "learning rate", "mixed precision"):
        assert words in text


def test_two_layers_have_two_groups():
    options = Options()
    for layer in ("a.py", "b.py"):
        options.layer = layer
        options.add_argument(f"--{layer[0]}-flag", action="store_true")
    text = options.format_help().partition("\n\n")[2]
    assert text.index("options of a.py") < text.index("--a-flag") < text.index("options of b.py")


def test_a_config_sets_options_and_models_and_the_command_line_wins():
    options = Options()
    options.merge_base_config({"training": {"epochs": 5, "rate": 0.2}, "log-every": 7})
    options.add_argument("--log-every", type=int, default=1)
    options.add_from_model("training", Training)
    parsed = options.parse(["--rate", "0.9"])
    assert parsed.training == Training(5, 0.9)
    assert parsed.log_every == 7


@pytest.mark.parametrize(
    ("config", "words"),
    [({"trainng": {}}, "training"), ({"training": {"epoch": 1}}, "epochs")],
)
def test_a_key_nobody_knows_names_the_nearest(config, words):
    options = Options()
    options.merge_base_config(config, "my.yaml")
    options.add_from_model("training", Training)
    with pytest.raises(UserError, match=f"my.yaml.*did you mean '{words}'"):
        options.parse(["--epochs", "1"])


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


def test_a_wrong_value_is_a_user_error():
    with pytest.raises(UserError, match="invalid int value"):
        parser().parse(["--epochs", "many"])
