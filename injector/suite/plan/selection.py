"""Which of a suite's benchmarks are meant: ``vision and not resnet*``, ``tag:nlp, bert``.

A word is a benchmark's name, the entry that it came from, its group, install group, a tag or the name
of its definition's folder; ``*``, ``?`` and ``[…]`` stand for several. ``name:``, ``entry:``,
``group:``, ``tag:`` and ``definition:`` say which of these is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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
    reader = _SelectionParser(text, suite)
    try:
        test = reader.whole()
    except ValueError as error:
        reader.wrong.append(str(error))
        test = lambda each: False
    problems += [Problem(Where(f"{option} {text}", 0), wrong) for wrong in reader.wrong]
    return test


class _SelectionParser:
    """One selection being read: ``or``, ``and``, ``not``, brackets; a comma is an ``or``."""

    def __init__(self, text: str, suite: Suite) -> None:
        self.suite = suite
        self.wrong: list[str] = []
        self.tokens = [found.group().strip() for found in _TOKEN.finditer(text)]
        self.at = 0

    def whole(self) -> Test:
        test = self.either()
        if self.token:
            raise ValueError(f"{self.token!r} is not expected; and, or, not join words")
        return test

    @property
    def token(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def has(self, *tokens: str) -> bool:
        if self.token.lower() in tokens and self.token:
            self.at += 1
            return True
        return False

    def either(self) -> Test:
        tests = [self.both()]
        while self.has("or", ","):
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda each: any(test(each) for test in tests)

    def both(self) -> Test:
        tests = [self.one()]
        while self.has("and"):
            tests.append(self.one())
        return tests[0] if len(tests) == 1 else lambda each: all(test(each) for test in tests)

    def one(self) -> Test:
        turns = False
        while self.has("not"):
            turns = not turns
        test = self.atom()
        return (lambda each: not test(each)) if turns else test

    def atom(self) -> Test:
        if self.has("("):
            test = self.either()
            if not self.has(")"):
                raise ValueError("a ) is missing")
            return test
        if not self.token or self.token in ("and", "or", ",", ")"):
            raise ValueError(
                "a word is missing" + (f" before {self.token!r}" if self.token else "")
            )
        word = self.token
        self.at += 1
        return self.word(word)

    def word(self, word: str) -> Test:
        kind, colon, pattern = word.partition(":")
        if not colon:
            kind, pattern = "", word
        elif kind not in _KINDS:
            raise ValueError(f"{kind}: is nothing to select by{meant(kind, _KINDS)}")
        if pattern != "*" and not any(_fits(each, kind, pattern) for each in self.suite.benchmarks):
            known = dict.fromkeys(w for each in self.suite.benchmarks for w in _words(each, kind))
            self.wrong.append(
                f"no benchmark has {kind or 'the name, group or tag'} {pattern}"
                f"{meant(pattern, known)}"
            )
        return lambda each: _fits(each, kind, pattern)


def _fits(benchmark: Benchmark, kind: str, pattern: str) -> bool:
    return any(fnmatchcase(word, pattern) for word in _words(benchmark, kind))


def _words(benchmark: Benchmark, kind: str) -> Iterator[str]:
    for name, words in _KINDS.items():
        if not kind or name == kind:
            yield from words(benchmark)
