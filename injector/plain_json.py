"""``json.loads`` and ``json.dumps`` without importing ``json``, which imports ``re``.

That would be a fifth of the time that all imports of a run take. The scanner and the encoder of :mod:`json`
are in C, in ``_json``, and need nothing else; here they are called as :mod:`json` calls them, so that the
results are the same, byte for byte. What they do not take, such as a malformed text, is left to :mod:`json`
itself: it then raises the same errors as ever.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BLANK = " \t\n\r"


def loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError or RecursionError, as :func:`json.loads`."""
    try:
        stripped = (text.decode() if isinstance(text, bytes) else text).strip(_BLANK)
        value, end = _scan(stripped, 0)
        if end == len(stripped):
            return value
    except (StopIteration, ValueError):
        pass  # malformed; json has the message with its line and column
    from json import loads

    return loads(text)


def dumps(value: object) -> str:
    """As ``json.dumps(value)``. Raises TypeError or ValueError as that does."""
    try:
        return "".join(_encode(value, 0))
    except TypeError:
        from json import dumps

        return dumps(value)


def indented(value: object, margin: str = "\n") -> str:
    """As ``json.dumps(value, indent=1)``, which the encoder in C does not do.

    ``margin`` is a line break with the indentation of the line in which ``value`` begins.
    """
    deeper = margin + " "
    if isinstance(value, dict) and value:
        keys = (dumps({key: 0})[1:-2] for key in value)  # a key need not be a text
        parts = [
            key + indented(each, deeper) for key, each in zip(keys, value.values(), strict=True)
        ]
        return "{" + deeper + f",{deeper}".join(parts) + margin + "}"
    if isinstance(value, (list, tuple)) and value:
        return "[" + deeper + f",{deeper}".join(indented(e, deeper) for e in value) + margin + "]"
    return dumps(value)


def _scanner() -> Callable[[str, int], tuple[Any, int]]:
    from _json import make_scanner

    # make_scanner reads these attributes of a json.JSONDecoder, once.
    decoder: dict[str, Any] = dict.fromkeys(("array_hook", "object_hook", "object_pairs_hook"))
    decoder |= {"parse_float": float, "parse_int": int, "parse_constant": float}
    decoder |= {"strict": True, "memo": {}}
    scan: Callable[[str, int], tuple[Any, int]] = make_scanner(type("Decoder", (), decoder))  # type: ignore[arg-type]
    return scan


def _encoder() -> Callable[[object, int], Any]:
    from _json import encode_basestring_ascii, make_encoder

    # (markers, default, string encoder, indent, key and item separators, sort, skip keys, NaN)
    encode: Callable[[object, int], Any] = make_encoder(
        None, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    return encode


def _refuse(value: object) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _scan_nothing(*_: object) -> Any:
    raise StopIteration


def _encode_nothing(*_: object) -> Any:
    raise TypeError


# `_json` is an implementation detail. On a Python without it, or where its parts take other arguments, these
# stand in: whatever they are called with is left to json.
try:
    _scan = _scanner()
except (ImportError, AttributeError, TypeError):
    _scan = _scan_nothing
try:
    _encode = _encoder()
except (ImportError, TypeError):
    _encode = _encode_nothing
