"""What a boot is told travels as JSON. The json package costs 6 ms, its part in C costs 0.2."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


def encode(value: Any) -> str:
    """Nested lists and mappings of strings, finite numbers, truths and nothings as JSON."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{encode(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json import dumps

        return dumps(text)
    return encode_basestring_ascii(text)


def decode(text: str) -> dict[str, Any]:
    """What JSON says."""
    found: dict[str, Any]
    # The attributes that json.JSONDecoder has.
    decoder: dict[str, Any] = dict.fromkeys(("array_hook", "object_hook", "object_pairs_hook"))
    decoder |= {"parse_float": float, "parse_int": int, "parse_constant": float}
    decoder |= {"strict": True, "memo": {}}
    try:
        from _json import make_scanner

        found = make_scanner(type("Decoder", (), decoder))(text, 0)[0]  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):  # a Python whose scanner is made otherwise
        from json import loads

        found = loads(text)
    return found
