"""Finding instruments, and what is said of a voirfile that cannot be used."""

from __future__ import annotations

import pytest

from injector.errors import UserError
from injector.overseer import voirfiles


def write(tmp_path, text):
    path = tmp_path / "x.py"
    path.write_text(text)
    return str(path)


def test_instruments_are_found_by_their_names(tmp_path):
    path = write(
        tmp_path,
        "def instrument_a(ov): ...\ndef helper(ov): ...\ninstrument_b = [len, {'x': max}]\n",
    )
    found = voirfiles.load(path, 0)
    assert [f.__name__ for f in found] == ["instrument_a", "len", "max"]


def test_instruments_dunder_wins(tmp_path):
    path = write(tmp_path, "def instrument_a(ov): ...\n__instruments__ = {'b': len}\n")
    assert voirfiles.load(path, 0) == [len]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "has no instrument"),
        ("def instrument_a(ov:\n", r"(?s)does not parse.*line 1.*\^"),
        ("a = 1\nb = a / 0\n", r"(?s)raised.*line 2.*ZeroDivisionError"),
        ("import not_a_module_of_anybody\n", "(?s)raised.*ModuleNotFoundError"),
    ],
)
def test_what_is_wrong_is_reported(text, words, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=words) as caught:
        voirfiles.load(path, 0)
    assert path in str(caught.value)
    assert "injector/overseer" not in str(caught.value)


def test_a_missing_voirfile_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"nope\.py cannot be read: No such file"):
        voirfiles.load(str(tmp_path / "nope.py"), 0)


HIDDEN = ("ast", "inspect", "json", "linecache", "re", "tokenize", "traceback")
"""Modules of the standard library that the rewriter, or what it uses, imports when it is called."""


def test_neighbours_with_names_of_the_standard_library_hide_nothing_from_us(inject):
    """In the program itself, in a module beside it, in a function that is met late, with `import *`."""
    done = inject(
        """
        import other, ast, tokenize
        def g(n):
            s = other.f(n)
            return s
        print(g(3), ast.MINE, tokenize.MINE)
        """,
        """
        def instrument_all(ov):
            ov.value("/other/f > t", "t")
            ov.value("//g > s", "s")
            ov.value("/star/double > n", "n")
        """,
        files={
            **{f"{name}.py": "MINE = 1\n" for name in HIDDEN},
            "other.py": """
                from star import *
                def f(n):
                    t = 0
                    for i in range(n):
                        t += double(i)
                    return t
                """,
            "star.py": "def double(n):\n    return 2 * n\n",
        },
    )
    assert done.out == "6 1 1\n", done.err
    assert done.fired == {"/other/f > t": 4, "//g > s": 1, "/star/double > n": 3}
