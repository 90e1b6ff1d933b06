"""Selections of a suite's benchmarks: ``vision and not resnet*``, ``tag:nlp, bert``.

A word matches a benchmark's name, the entry that it came from, its group, its install group, a tag, or the
name of its definition's folder; ``*``, ``?`` and ``[…]`` are wildcards. A prefix ``name:``, ``entry:``,
``group:``, ``tag:`` or ``definition:`` restricts a word to one of these.
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
"""Whether a selection takes a benchmark."""


def select_benchmarks(
    suite: Suite, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Suite:
    """The suite with those enabled benchmarks that some text of ``select`` takes and none of ``exclude``.

    Raises SuiteError if a word matches no benchmark, a text cannot be read, or no benchmark is left.
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
        raise SuiteError([_nothing_left(suite, named, select, exclude)])
    return replace(suite, benchmarks=left)


def _nothing_left(
    suite: Suite, named: Sequence[Benchmark], select: Sequence[str], exclude: Sequence[str]
) -> Problem:
    """Why no benchmark is left: ``named`` were selected, but are not enabled; or none was."""
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
    """The selection that ``text`` describes with ``and``, ``or``, ``not`` and brackets; a comma means ``or``.

    Adds to ``problems`` what is wrong. ``option`` is ``--select`` or ``--exclude``.
    """

    def wrong(sentence: str) -> None:
        problems.append(Problem(Where(f"{option} {text}", 0), sentence))

    # Each word becomes an identifier; what results is an expression of Python, whose parser knows precedence
    # and brackets. It is never evaluated.
    words: dict[str, Test] = {}
    tokens = []
    for match in _TOKEN.finditer(text):
        token = (match["sign"] or match["word"]).lower()
        if match["word"] and token not in ("and", "or", "not"):
            token = f"_{len(words)}"
            words[token] = _word_test(match["word"], suite, wrong)
        tokens.append("or" if token == "," else token)
    try:
        return _expression_test(ast.parse(" ".join(tokens), mode="eval").body, words)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        wrong("cannot be read: and, or, not and commas join words, and every ( has its )")
        return lambda each: False


def _expression_test(node: ast.AST, words: Mapping[str, Test]) -> Test:
    """The selection of an expression. Raises ValueError if it has anything but ``and``, ``or``, ``not``."""
    if isinstance(node, ast.Name):
        return words[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = _expression_test(node.operand, words)
        return lambda benchmark: not operand(benchmark)
    if isinstance(node, ast.BoolOp):
        combine, operands = (any if isinstance(node.op, ast.Or) else all), node.values
        tests = [_expression_test(operand, words) for operand in operands]
        return lambda benchmark: combine(test(benchmark) for test in tests)
    raise ValueError  # a call: two words with nothing but brackets between them


def _word_test(word: str, suite: Suite, wrong: Callable[[str], None]) -> Test:
    """The benchmarks that one word matches; ``wrong`` is called with what is wrong with it."""
    kind, colon, pattern = word.partition(":")
    if not colon:
        kind, pattern = "", word
    if kind and kind not in _KINDS:
        wrong(f"{kind}: is nothing to select by{meant(kind, _KINDS)}")
    elif not pattern:
        wrong(f"a word is missing after {word}")
    # A misspelt word would take nothing, or exclude nothing, without a sign of it.
    elif pattern != "*" and not any(_matches(each, kind, pattern) for each in suite.benchmarks):
        known = dict.fromkeys(name for each in suite.benchmarks for name in _names(each, kind))
        what = kind or "the name, group or tag"
        wrong(f"no benchmark has {what} {pattern}{meant(pattern, known)}")
    return lambda benchmark: _matches(benchmark, kind, pattern)


def _matches(benchmark: Benchmark, kind: str, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in _names(benchmark, kind))


def _names(benchmark: Benchmark, kind: str) -> Iterator[str]:
    """What a word may match of a benchmark; ``kind`` is a key of :data:`_KINDS`, or empty for all."""
    for name, names_of in _KINDS.items():
        if not kind or name == kind:
            yield from names_of(benchmark)
