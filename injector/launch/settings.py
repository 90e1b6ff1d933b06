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
    scanner: Any
    try:
        from _json import make_scanner as scanner
    except ImportError:
        from json import loads

        result: dict[str, Any] = loads(text)
        return result
    # The attributes that json.JSONDecoder has.
    plain: dict[str, Any] = dict.fromkeys(("object_hook", "object_pairs_hook"))
    plain |= {"parse_float": float, "parse_int": int, "parse_constant": float}
    plain |= {"strict": True, "memo": {}}
    found: dict[str, Any] = scanner(type("Plain", (), plain))(text, 0)[0]
    return found
