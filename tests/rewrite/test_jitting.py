"""What reads bytecode reads that of the function as it was written."""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import Any

from injector.rewrite.originals import compile_originals, twin


def make(text: str, **names: Any) -> FunctionType:
    space: dict[str, Any] = {"__name__": "made", **names}
    exec(text, space)
    made: FunctionType = space["make"]()
    return made


WRITTEN = """\
def make(a=1, b=2):
    def f(x: int, y=3, *, z=4):
        'doc'
        return a + x
    return f
"""


def test_a_twin() -> None:
    function = make(WRITTEN)
    function.mark = 5  # type: ignore[attr-defined]
    # The rewritten form holds a further variable of its closure.
    rewritten = make(WRITTEN.replace("return a", "b; return a"))
    rewritten.mark = 5  # type: ignore[attr-defined]
    made = twin(rewritten, function.__code__)
    assert made.__code__ is function.__code__ and made(2) == 3
    for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__doc__", "__dict__"):
        assert getattr(made, name) == getattr(function, name)
    assert (made.__qualname__, made.__module__) == (function.__qualname__, function.__module__)


def test_only_ours_is_exchanged() -> None:
    class FunctionIdentity:
        seen: list[Any] = []

        @classmethod
        def from_function(cls, pyfunc: Any) -> Any:
            cls.seen.append(pyfunc)
            return cls

    module: Any = SimpleNamespace(FunctionIdentity=FunctionIdentity)
    ours, theirs = make(WRITTEN), make(WRITTEN)
    written = make(WRITTEN).__code__
    codes = {id(ours.__code__): written}
    compile_originals(module, lambda code: codes.get(id(code)))
    for function in (ours, theirs, 3):
        assert module.FunctionIdentity.from_function(function) is FunctionIdentity
    assert [getattr(f, "__code__", f) for f in FunctionIdentity.seen] == [
        written,
        theirs.__code__,
        3,
    ]
    assert FunctionIdentity.seen[1] is theirs
