"""What ``--stop 100``, ``--max-duration 5m``, ``--torch-profile 20:25`` and others mean."""

from __future__ import annotations

from injector.errors import UserError

LIMITS = ("--skip", "--stop", "--max-duration", "--timeout", "--grace", "--interval", "--gpu-poll")
COUNTS = ("--skip", "--stop")
PHASES = ("training", "inference")
DEEPEST = 100
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
TRACKERS = ("mlflow", "otel", "prometheus", "tensorboard", "wandb")
"""Those that a run can be sent to while it goes on."""
LONGEST = 10 * 365 * 86400
"""Seconds beyond which a time is a mistake, and clocks run over."""
SHORTEST = 0.01
"""Seconds between samples below which taking them is all that a core would do."""


def limit(option: str, text: str) -> float:
    """The value of an option: a number of steps, or seconds. Raises UserError for nonsense."""
    if option in COUNTS:
        return count(option, text)
    if option == "--grace" and text.strip() in ("0", "0s"):
        return 0
    if option in ("--interval", "--gpu-poll"):
        return interval(option, text)
    return duration(option, text)


def track_of(text: str) -> tuple[str, str]:
    """Tracker and place of ``--track``. Raises UserError for an unknown tracker."""
    tool, equals, where = text.partition("=")
    if tool == "perfetto":
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
    """Key and value of ``--tag``. Raises UserError for what is no such pair."""
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not (key and equals and key.isprintable() and value.isprintable()):
        raise UserError(f"--tag is KEY=VALUE, such as lr=0.1, not {text!r}")
    return key, value


def price_of(text: str) -> tuple[float, str]:
    """What an hour costs by ``--price``, and its currency as written. Raises UserError for nonsense."""
    given = text.strip()
    size = len(given) - len(given.lstrip("0123456789."))
    number, rest = (given[:size], given[size:]) if size else (given, "")
    if not size:  # "$2.5"
        rest = given.rstrip("0123456789.")
        number = given[len(rest) :]
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
    """What ``--phase`` declares a program to do. Raises UserError for another word."""
    found = text.strip().lower()
    if found not in PHASES:
        raise UserError(f"--phase is training or inference, not {text!r}")
    return found


def layers_of(text: str) -> int:
    """The depth of ``--layers``. Raises UserError for nonsense."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits[:4]) <= DEEPEST):
        raise UserError(
            f"--layers is how deep modules are timed, from 1 to {DEEPEST}, not {text!r}"
        )
    return int(digits)


def peak_of(text: str) -> float:
    """FLOP/s of ``--peak-flops``. Raises UserError for nonsense."""
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
    """The steps of ``--torch-profile``, from 0: from the first to before the last. Raises UserError."""
    first, colon, last = text.strip().partition(":")
    numbers = all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (first, last))
    if not (colon and numbers) or int(first) >= int(last):
        raise UserError(
            "--torch-profile is FIRST:LAST, steps from 0 of which LAST is the first one not recorded, such "
            f"as 20:25, not {text!r}"
        )
    return int(first), int(last)


def interval(option: str, text: str) -> float:
    """Seconds between samples, not fewer than can be kept up with."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = duration(option, text)
    if 0 < seconds < SHORTEST:
        raise UserError(f"{option} is 10ms at least, such as 0.5, 500ms or 10s, not {text!r}")
    return duration(option, text)


def count(option: str, text: str) -> int:
    """A number of steps: not negative, and for ``--stop`` at least one."""
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 15:
        raise UserError(f"{option} is a number of steps, not {text!r}")
    found = int(digits)
    if not found and option == "--stop":
        raise UserError(f"{option} 0 would observe nothing: it is the number of steps to observe")
    return found


def duration(option: str, text: str) -> float:
    """Seconds: ``90``, ``90s``, ``1.5m``, ``1h30m``, ``2d``. More than none."""
    seconds, rest = 0.0, text.strip().lower()
    if rest.translate(dict.fromkeys(map(ord, "0123456789."))) == "":
        rest += "s"
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
