"""The values of ``inject run``'s options: what ``--stop 100``, ``--max-duration 5m`` and the like mean.

Each function takes the text that the user wrote and returns a value, or raises UserError with a sentence that
names the option, what it expects with an example, and what was written instead. Suites use them too, for
options in YAML. They are strict: a number such as ``1e3`` or ``²`` is more likely a mistake than meant.
"""

from __future__ import annotations

from injector.errors import UserError

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = ("--skip", "--stop", "--max-duration", "--timeout", "--grace", "--interval", "--gpu-poll")
"""Options whose values are numbers of steps, or times."""
CONTAINER = ("--container", "--container-engine", "--container-mount", "--container-pull")
"""Options of the container in which the whole command runs. They are removed before the rest is read."""
ENGINE = ("--engine", "--engine-option")
"""Options of the machine on which the whole command runs. They are removed likewise."""
TEXTS = ("--voirfile", "--config", "--runs", "--into", "--name", *CONTAINER[:-1], *ENGINE)
"""Options whose values are any text."""
FLAGS = (
    *("--workers", "--strict", "--quiet", "--no-auto", "--no-monitor", "--no-voirfile", "--sample"),
    *("--live", "--no-live", "--flops", "--memory", "--verbose", "--help", "--sample-native"),
    "--container-pull",
)
"""Options without a value."""
COUNTS = ("--skip", "--stop")
PHASES = ("training", "inference")
DEEPEST = 100
"""The largest depth of ``--layers``."""
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""Units of time, in seconds."""
TRACKERS = ("mlflow", "otel", "prometheus", "tensorboard", "wandb")
"""Trackers that can be sent a run while it goes on."""
LONGEST = 10 * 365 * 86400
"""Seconds. A longer time is a mistake, and would overflow the clocks that wait for it."""
SHORTEST = 0.01
"""Seconds between samples. With less, taking samples would keep a core busy."""


def limit(option: str, text: str) -> float:
    """The value of one of :data:`LIMITS`: a number of steps, or seconds. Raises UserError."""
    if option in COUNTS:
        return count(option, text)
    # The only time that may be nothing: the program is then killed without being warned.
    if option == "--grace" and text.strip() in ("0", "0s"):
        return 0
    if option in ("--interval", "--gpu-poll"):
        return interval(option, text)
    return duration(option, text)


def track_of(text: str) -> tuple[str, str]:
    """The tracker and the place of ``--track TRACKER[=PLACE]``. Raises UserError for an unknown tracker."""
    tool, equals, where = text.partition("=")
    if tool == "perfetto":  # `inject export` has it
        raise UserError(
            "--track perfetto: a trace is written when the run has ended, by inject export"
        )
    if tool not in TRACKERS:
        raise UserError(f"--track is one of {', '.join(TRACKERS)}, not {tool!r}")
    if equals and not where:
        raise UserError(f"--track {text}: TRACKER=PLACE, or TRACKER for its own default")
    if tool == "prometheus" and not where:
        raise UserError(
            "--track prometheus needs a place: =http://HOST:9091 of a Pushgateway, or =FILE.prom"
        )
    return tool, where


def tag_of(text: str) -> tuple[str, str]:
    """The key and the value of ``--tag KEY=VALUE``. Raises UserError."""
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not (key and equals and key.isprintable() and value.isprintable()):
        raise UserError(f"--tag is KEY=VALUE, such as lr=0.1, not {text!r}")
    return key, value


def price_of(text: str) -> tuple[float, str]:
    """What an hour costs by ``--price``, and the currency as written. Raises UserError.

    The currency may stand on either side: ``2.5``, ``2.5 EUR``, ``$2.5``.
    """
    text_ = text.strip()
    digits = len(text_) - len(text_.lstrip("0123456789."))
    if digits:
        number, rest = text_[:digits], text_[digits:]
    else:
        rest = text_.rstrip("0123456789.")
        number = text_[len(rest) :]
    currency = rest.strip()
    try:
        price = float(number)
    except ValueError:
        price = -1.0
    if (
        not 0 < price < 1e9
        or not currency.isprintable()
        or any(c.isdigit() or c in "+-" for c in currency)
    ):
        raise UserError(f"--price is what an hour costs, such as 2.5 or '2.5 EUR', not {text!r}")
    return price, currency


def phase_of(text: str) -> str:
    """What the program does according to ``--phase``: one of :data:`PHASES`. Raises UserError."""
    phase = text.strip().lower()
    if phase not in PHASES:
        raise UserError(f"--phase is training or inference, not {text!r}")
    return phase


def layers_of(text: str) -> int:
    """The depth of ``--layers``. Raises UserError."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits[:4]) <= DEEPEST):
        raise UserError(
            f"--layers is how deep modules are timed, from 1 to {DEEPEST}, not {text!r}"
        )
    return int(digits)


def peak_of(text: str) -> float:
    """The FLOP/s of ``--peak-flops``. Raises UserError."""
    try:
        peak = float(text)
    except ValueError:
        peak = 0.0
    if not 0 < peak < 1e21:
        raise UserError(
            f"--peak-flops is the FLOP/s of one device at best, such as 312e12, not {text!r}"
        )
    return peak


def profile_of(text: str) -> tuple[int, int]:
    """The first and the last step of ``--torch-profile``; the last is not recorded. Raises UserError."""
    first, colon, last = text.strip().partition(":")
    numbers = all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (first, last))
    if not (colon and numbers) or int(first) >= int(last):
        raise UserError(
            "--torch-profile is FIRST:LAST, steps from 0 of which LAST is the first one not recorded, such "
            f"as 20:25, not {text!r}"
        )
    return int(first), int(last)


def interval(option: str, text: str) -> float:
    """Seconds between samples, at least :data:`SHORTEST`. Raises UserError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = duration(option, text)
    # A message of its own, since "a time above 0" would not explain what is wrong with 1ms.
    if 0 < seconds < SHORTEST:
        raise UserError(f"{option} is 10ms at least, such as 0.5, 500ms or 10s, not {text!r}")
    return duration(option, text)


def count(option: str, text: str) -> int:
    """A number of steps, not negative; for ``--stop``, at least one. Raises UserError."""
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 15:
        raise UserError(f"{option} is a number of steps, not {text!r}")
    steps = int(digits)
    if not steps and option == "--stop":
        raise UserError(f"{option} 0 would observe nothing: it is the number of steps to observe")
    return steps


def duration(option: str, text: str) -> float:
    """Seconds, more than 0, of ``90``, ``90s``, ``1.5m``, ``1h30m`` or ``2d``. Raises UserError."""
    seconds, rest = 0.0, text.strip().lower()
    if rest.translate(dict.fromkeys(map(ord, "0123456789."))) == "":
        rest += "s"
    # By hand: regular expressions would take 5 ms to import, in every run.
    while True:
        number = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest[len(number) :].lstrip()
        unit = rest[: len(rest) - len(rest.lstrip("abcdefghijklmnopqrstuvwxyz"))]
        rest = rest[len(unit) :].lstrip()
        try:
            seconds += float(number) * UNITS[unit]
        except (ValueError, KeyError):
            raise UserError(_no_time(option, text)) from None
        if not rest:
            break
    if not 0 < seconds <= LONGEST:
        raise UserError(_no_time(option, text))
    return seconds


def _no_time(option: str, text: str) -> str:
    return f"{option} is a time above 0, such as 90, 90s, 5m or 1h30m, not {text!r}"


READERS: dict[str, Callable[[str], object]] = {
    "--tag": tag_of,
    "--track": track_of,
    "--price": price_of,
    "--layers": layers_of,
    "--peak-flops": peak_of,
    "--torch-profile": profile_of,
    "--phase": phase_of,
}
"""What reads the value of each option that is none of :data:`LIMITS` and :data:`TEXTS`."""
