"""Which of a suite's benchmarks are meant: ``vision and not resnet*``, ``tag:nlp, bert``.

A word is a benchmark's name, the entry that it came from, its group, install group, a tag or the name
of its definition's folder; ``*``, ``?`` and ``[…]`` stand for several. ``name:``, ``entry:``,
``group:``, ``tag:`` and ``definition:`` say which of these is meant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from ..config.model import Benchmark, Suite
from ..config.problems import Problem, SuiteError, Where, meant

_TOKEN = re.compile(r"\s*(?:(?P<sign>[(),])|(?P<word>[^\s(),]+))")
_KINDS: dict[str, Callable[[Benchmark], Sequence[str]]] = {
    "name": lambda each: (each.name,),
    "entry": lambda each: (each.family,) if each.family else (),
    "group": lambda each: (each.group, each.install_group),
    "tag": lambda each: each.tags,
    "definition": lambda each: (each.definition.name,) if each.definition else (),
}

Test = Callable[[Benchmark], bool]


def select_benchmarks(
    suite: Suite, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Suite:
    """The suite with the enabled benchmarks that any of ``select`` and none of ``exclude`` name.

    Raises:
        SuiteError: a word that no benchmark has, a text that is no selection, or nothing is left.
    """
    problems: list[Problem] = []
    wanted = [_parse("--select", text, suite, problems) for text in select]
    unwanted = [_parse("--exclude", text, suite, problems) for text in exclude]
    if problems:
        raise SuiteError(problems)
    named = [
        each
        for each in suite.benchmarks
        if (not wanted or any(test(each) for test in wanted))
        and not any(test(each) for test in unwanted)
    ]
    left = tuple(each for each in named if each.enabled)
    if not left:
        raise SuiteError([_nothing(suite, named, select, exclude)])
    return replace(suite, benchmarks=left)


def _nothing(
    suite: Suite, named: Sequence[Benchmark], select: Sequence[str], exclude: Sequence[str]
) -> Problem:
    if named and (select or exclude):
        names = ", ".join(each.name for each in named[:5])
        text = (
            f"selects only what is not enabled ({names}): --override {named[0].name}.enabled=true"
        )
    elif select or exclude:
        text = "nothing is left of the suite: no benchmark fits"
    else:
        text = "no benchmark of it is enabled: --override NAME.enabled=true"
        return Problem(Where(str(suite.file), 1), text)
    given = [f"--select {text}" for text in select] + [f"--exclude {text}" for text in exclude]
    return Problem(Where(" ".join(given), 0), text)


def _parse(option: str, text: str, suite: Suite, problems: list[Problem]) -> Test:
    """Reads ``or``, ``and``, ``not``, brackets; a comma is an ``or``. The grammar is that of Python."""

    def wrong(sentence: str) -> None:
        problems.append(Problem(Where(f"{option} {text}", 0), sentence))

    words: dict[str, Test] = {}
    pieces = []
    for found in _TOKEN.finditer(text):
        piece = (found["sign"] or found["word"]).lower()
        if found["word"] and piece not in ("and", "or", "not"):
            piece = f"_{len(words)}"
            words[piece] = _word(found["word"], suite, wrong)
        pieces.append("or" if piece == "," else piece)
    try:
        return _test(ast.parse(" ".join(pieces), mode="eval").body, words)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        wrong("cannot be read: and, or, not and commas join words, and every ( has its )")
        return lambda each: False


def _test(node: ast.AST, words: Mapping[str, Test]) -> Test:
    if isinstance(node, ast.Name):
        return words[node.id]
    if isinstance(node, ast.UnaryOp):
        inner = _test(node.operand, words)
        return lambda each: not inner(each)
    if isinstance(node, ast.BoolOp):
        decide, tests = (any if isinstance(node.op, ast.Or) else all), node.values
        several = [_test(each, words) for each in tests]
        return lambda each: decide(test(each) for test in several)
    raise ValueError  # a call: two words with nothing but brackets between them


def _word(word: str, suite: Suite, wrong: Callable[[str], None]) -> Test:
    kind, colon, pattern = word.partition(":")
    if not colon:
        kind, pattern = "", word
    if kind and kind not in _KINDS:
        wrong(f"{kind}: is nothing to select by{meant(kind, _KINDS)}")
    elif not pattern:
        wrong(f"a word is missing after {word}")
    elif pattern != "*" and not any(_fits(each, kind, pattern) for each in suite.benchmarks):
        known = dict.fromkeys(each for one in suite.benchmarks for each in _words(one, kind))
        what = kind or "the name, group or tag"
        wrong(f"no benchmark has {what} {pattern}{meant(pattern, known)}")
    return lambda each: _fits(each, kind, pattern)


def _fits(benchmark: Benchmark, kind: str, pattern: str) -> bool:
    return any(fnmatchcase(word, pattern) for word in _words(benchmark, kind))


def _words(benchmark: Benchmark, kind: str) -> Iterator[str]:
    for name, words in _KINDS.items():
        if not kind or name == kind:
            yield from words(benchmark)
