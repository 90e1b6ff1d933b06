"""Voirfiles in real runs: what they see, what they change, and what their mistakes do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LOOP = """
def train(n):
    total = 0
    for i in range(n):
        loss = 10 / (i + 1)
        total += loss
    return total

print(train(5))
"""


def test_a_value_is_recorded(inject):
    run = inject(LOOP, 'def instrument_a(ov):\n    ov.value("//train > loss", task="train")\n')
    assert (run.exit, run.out) == (0, "22.833333333333332\n")
    assert run.fired == {"//train > loss": 5}
    [probe] = run.record["probes"]
    assert probe["places"][0]["source"] == "loss = 10 / (i + 1)"


def test_streams_have_the_operators_of_giving(inject):
    run = inject(
        LOOP,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("//train(n) > loss")["loss"].min().print("min {}")
            ov.probe("//train(n) > loss").kmap(lambda n, loss: (n, round(loss, 1))).print()
        """,
    )
    assert run.exit == 0
    assert run.out.split("\n")[:5] == ["(5, 10.0)", "(5, 5.0)", "(5, 3.3)", "(5, 2.5)", "(5, 2.0)"]
    assert "min 2.0" in run.out


@pytest.mark.parametrize(
    "change",
    [
        'ov.override("//train > loss", lambda loss: 1)',
        'ov.probe("//train > loss", overridable=True)["loss"].override(lambda loss: 1)',
        'ov.probe("//train > loss", overridable=True)["loss"].override(1)',
        'ov.probe("//train(n) > loss", overridable=True).koverride(lambda n, loss: n // 5)',
        'ov.probe("//train() as r", overridable=True)["r"].override(lambda r: 5)',
    ],
)
def test_values_are_overridden(change, inject):
    run = inject(LOOP, f"def instrument_a(ov):\n    yield ov.phases.load_script\n    {change}\n")
    assert (run.exit, run.out) == (0, "5\n")


def test_an_override_that_answers_nothing_changes_nothing(inject):
    run = inject(
        LOOP,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            probe = ov.probe("//train > loss", overridable=True)
            probe["loss"].filter(lambda loss: loss > 5).override(lambda loss: 0)
        """,
    )
    assert run.out.strip() == str(10 / 2 + 10 / 3 + 10 / 4 + 10 / 5)


def test_the_phases_of_a_run(inject):
    run = inject(
        'print("program")',
        """
        import sys
        def instrument_a(ov):
            def say(word): print(word, file=sys.stdout)
            yield ov.phases.init
            say("init")
            yield ov.phases.parse_args
            say("parsed")
            yield ov.phases.load_script
            say("loaded")
            yield ov.phases.run_script
            say("ran")
            yield ov.phases.finalize
            say("final")
        """,
    )
    assert run.out.split() == ["init", "parsed", "loaded", "program", "ran", "final"]
    assert [phase["name"] for phase in run.events("phase")] == [
        "init", "parse_args", "load_script", "run_script", "finalize",
    ]  # fmt: skip


def test_the_programs_exception_reaches_the_instrument_and_the_user(inject):
    run = inject(
        "def f():\n    raise ValueError('the program')\nf()\n",
        """
        def instrument_a(ov):
            try:
                yield ov.phases.run_script
            except ValueError as error:
                print("saw", error)
        """,
    )
    assert run.exit == 1
    assert run.out == "saw the program\n"
    assert run.err.startswith("Traceback (most recent call last):\n")
    assert 'main.py", line 3, in <module>' in run.err
    assert "injector" not in run.err.split("ValueError: the program")[0]


VOIR = """
from dataclasses import dataclass
from voir import configurable
from voir.instruments import early_stop, log, rate
from voir.tools import gated, parametrized

@dataclass
class Options:
    # after how many rates to stop
    stop: int = 3
    interval: str = "1"

@configurable
def instrument_main(ov, options: Options):
    yield ov.phases.init
    ov.require(
        log("value", "loss", "rate", "units", "+task"),
        rate(interval=int(options.interval)),
        early_stop(key="rate", n=options.stop, task="train"),
    )
    yield ov.phases.load_script
    ov.probe("//main > batch").map(
        lambda d: {"task": "train", "batch_size": len(d["batch"])}
    ).give()
    ov.probe("//main > loss").augment(task=lambda: "train").give()

@gated("--shout", "Say it loudly.")
def instrument_shout(ov):
    yield ov.phases.finalize
    print("SHOUT")

@parametrized("--word", type=str, default="none", help="A word.")
def instrument_word(ov):
    yield ov.phases.finalize
    print(ov.options.word)
"""

TRAINING = """
import time
def main():
    try:
        for batch in [[1, 2, 3, 4]] * 50:
            time.sleep(0.002)
            loss = 0.5
    finally:
        print("cleaned")
main()
print("never")
"""


def test_a_voirfile_of_voir_runs_unchanged(inject):
    run = inject(TRAINING, VOIR, "--stop", "4", "--word", "hello", "--shout")
    assert run.exit == 0, run.err
    assert set(run.out.split()) == {"cleaned", "SHOUT", "hello"}
    rates = [d for d in run.events("data") if "rate" in d]
    assert len(rates) >= 4
    assert {d["task"] for d in rates} == {"train"}
    assert all(10 < d["rate"] < 2000 for d in rates)


YIELDS_NOTHING = """
from dataclasses import dataclass
from voir import configurable

@dataclass
class Options:
    word: str = "x"

@configurable
def instrument_main(ov, options: Options):
    ov.value("// > loss", "loss")
"""


def test_a_function_with_options_that_yields_nothing_is_named(inject):
    run = inject("loss = 1.0\n", YIELDS_NOTHING)
    assert run.exit == 0
    reason = (
        "instrument instrument_main: TypeError: a function under @configurable has to yield a phase"
    )
    assert reason in run.err


MODEL = """
from dataclasses import dataclass
from voir import configurable

@dataclass
class Options:
    stop: int = 60
    skip: int = 5
    interval: str = "1s"

@configurable
def instrument_main(ov, options: Options):
    yield ov.phases.finalize
    print("x", ov.options.options == options, options.stop, options.skip, options.interval)
"""
OTHER = """
from voir.tools import gated, parametrized

@parametrized("--stop", type=float, default=0.5)
def instrument_stop(ov):
    yield ov.phases.finalize
    print("y", ov.options.stop)

@gated("--live", "Alive.")
def instrument_live(ov):
    yield ov.phases.finalize
    print("y lives")
"""
UPDATES = """
import sys
import torch
print(sys.argv[1:])
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight])
for i in range(9):
    weight.sum().backward()
    optimizer.step()
print("steps", i + 1)
"""


def test_a_voirfile_hears_of_an_option_that_ours_has_too_and_both_act(inject):
    """One voirfile, two of them, and the program: each what was meant for it."""
    pytest.importorskip("torch")
    given = ("--stop", "3", "--skip", "1", "--interval", "10s")
    its = ("--stop", "7", "--interval", "1", "--live")
    run = inject(UPDATES, MODEL, "--voirfile", "y.py", *given, args=its, files={"y.py": OTHER})
    assert run.exit == 0, run.err
    assert run.out.splitlines() == [str(list(its)), "x True 3 1 10s", "y 3.0"]
    assert run.record["limits"] == {"stop": 3, "skip": 1, "interval": 10}
    assert run.record["stopped"]

    run = inject(OTHER.replace("yield", "#"), MODEL, args=its)
    assert run.out == "x True 60 5 1s\n"

    run = inject("print('ran')", OTHER, "--live", "--no-live")
    assert run.out.splitlines() == ["ran", "y 0.5", "y lives"]


BROKEN = {
    "that does not parse": "def instrument_x(ov) return",
    "that raises": "import nothing_of_that_name\n",
    "that exits": "import sys\nsys.exit('no GPU')\n",
    "without an instrument": "x = 1\n",
    "with an option that is required": """
        def instrument_x(ov):
            yield ov.phases.init
            ov.argparser.add_argument("--batch", required=True)
            yield ov.phases.parse_args
            print("never", ov.options.batch)
        """,
    "with a selector that is none": "def instrument_x(ov):\n    ov.value('f >> > x')\n",
    "with a function that has not what it names": """
        def instrument_x(ov):
            yield ov.phases.parse_args
            ov.value("//f > x", get=lambda nothing_of_that_name: 1)
        """,
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_voirfile_that_was_found_fails_open_and_one_that_was_named_is_an_error(inject, how):
    program = "import sys\ndef f():\n    x = 1\nf()\nprint('ran', sys.argv[1:])\n"
    files = {"voirfile.py": BROKEN[how]}
    run = inject(program, None, "--timeout", "60", args=("--batch", "3"), files=files)
    assert (run.exit, run.out) == (0, "ran ['--batch', '3']\n")
    [warning] = run.record["warnings"]
    assert "voirfile.py" in warning["text"] or "instrument" in warning["text"]
    assert warning["text"][:20] in run.err  # the rest may be wrapped

    without = inject(program, None, "--no-voirfile")
    assert (without.exit, without.record["warnings"]) == (0, [])

    for named in ({"env": {"VOIRFILE": "voirfile.py"}}, {"args": ("--voirfile", "voirfile.py")}):
        run = inject(program, None, **named)
        assert (run.exit, run.out) == (2, ""), how
        assert run.err.startswith("inject: ") and "warning" not in run.err
        assert run.folder == without.folder  # no run is left of it


def test_the_variable_of_voir_and_a_function_of_a_module(inject):
    """As under voir: the function is called without arguments, and what it returns is no exit code."""
    files = {
        "pkg/mod.py": "import sys\ndef main():\n    x = 5\n    print(sys.argv)\n    return 3\n",
        "y.py": "def instrument_y(ov):\n    ov.value('/pkg.mod/main > x')\n",
    }
    command = ("-m", "pkg.mod:main", "a", "--")
    run = inject("", None, *command, files=files, env={"VOIRFILE": "y.py"})
    assert (run.exit, run.out) == (0, "['pkg.mod:main', 'a', '--', 'main.py']\n")
    assert run.fired == {"/pkg.mod/main > x": 1}


def test_a_config_sets_many(inject):
    run = inject(
        TRAINING, VOIR, "--config", "c.yaml", files={"c.yaml": "options: {stop: 2}\nword: w\n"}
    )
    assert run.exit == 0, run.err
    assert "w" in run.out.split()


SWALLOW = """
def step(i):
    loss = i
    return loss

def main():
    for i in range(1000):
        try:
            step(i)
        except:
            pass
        finally:
            last = i
    print("went on")

try:
    main()
finally:
    print("cleaned")
"""


@pytest.mark.parametrize("how", ["raise StopProgram", "ov.stop()", "raise voir.phase.StopProgram"])
def test_stopping_is_success_even_with_a_bare_except(how, inject):
    run = inject(
        SWALLOW,
        f"""
        from injector import StopProgram
        import voir.phase
        def instrument_a(ov):
            def check(loss):
                if loss == 7:
                    {how}
                return loss
            ov.override("//step > loss", check)
        """,
    )
    assert (run.exit, run.out) == (0, "cleaned\n"), run.err
    assert run.record["stopped"] is True
    assert "stopped on request" in run.err


@pytest.mark.parametrize("raised", ["injector", "voir.phase"])
@pytest.mark.parametrize("caught", ["injector", "voir.phase"])
def test_instruments_hear_of_a_stop(raised, caught, inject):
    run = inject(
        SWALLOW,
        f"""
        import injector, voir.phase
        def check(loss):
            if loss == 7:
                raise {raised}.StopProgram("enough")
            return loss
        def instrument_a(ov):
            ov.override("//step > loss", check)
            try:
                yield ov.phases.run_script
            except {caught}.StopProgram as stop:
                print("stopped", *stop.args)
            yield ov.phases.finalize
            print("final")
        """,
    )
    assert (run.exit, run.out.split()) == (0, ["cleaned", "stopped", "enough", "final"]), run.err


def test_a_handler_that_raises_is_reported_and_changes_nothing(inject):
    voirfile = 'def instrument_a(ov):\n    ov.override("//train > loss", lambda loss: 1 / 0)\n'
    run = inject(LOOP, voirfile)
    assert (run.exit, run.out) == (0, "22.833333333333332\n")
    assert "ZeroDivisionError" in run.err
    [failure] = run.record["failures"]
    assert failure["type"] == "ZeroDivisionError"
    assert inject(LOOP, voirfile, "--strict").exit == 70


def test_an_instrument_that_raises_is_reported_and_changes_nothing(inject):
    run = inject(
        LOOP, "def instrument_a(ov):\n    yield ov.phases.init\n    raise KeyError('mine')\n"
    )
    assert (run.exit, run.out) == (0, "22.833333333333332\n")
    assert "KeyError" in run.err


def test_a_probe_that_finds_nothing_is_a_warning_with_the_nearest_name(inject):
    run = inject(LOOP, 'def instrument_a(ov):\n    ov.value("//trian > loss")\n')
    assert (run.exit, run.out) == (0, "22.833333333333332\n")
    assert "//trian > loss" in run.err
    assert "train" in run.err.split("trian", 1)[1]


def test_a_probe_that_never_fires_is_a_warning(inject):
    run = inject(
        "def f():\n    x = 1\nprint(1)\n", 'def instrument_a(ov):\n    ov.value("//f > x")\n'
    )
    assert "never fired" in run.err
    fired = inject(LOOP, 'def instrument_a(ov):\n    ov.value("//train > loss")\n')
    assert "never fired" not in fired.err


def test_a_selector_that_does_not_parse_is_an_error_with_a_caret(inject):
    run = inject(LOOP, 'def instrument_a(ov):\n    ov.value("//train > > loss")\n')
    assert (run.exit, run.out) == (2, "")
    assert "^" in run.err
    assert "x.py:2" in run.err


@pytest.mark.parametrize(
    ("voirfile", "words"),
    [
        ("x = 1\n", "no instrument"),
        ("def instrument_a(ov\n", "x.py"),
        ("raise RuntimeError('mine')\n", "RuntimeError: mine"),
    ],
)
def test_a_voirfile_that_cannot_be_used_is_an_error(voirfile, words, inject):
    run = inject("print('ran')", voirfile)
    assert (run.exit, run.out) == (2, "")
    assert words in run.err


def test_nested_selectors(inject):
    run = inject(
        """
        def g(y):
            z = y * 2
            return z
        def f(x):
            return g(x) + 1
        g(100)
        f(1)
        f(2)
        g(200)
        """,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("//f(x) > //g(y) > z").print("{x} {y} {z}")
        """,
    )
    assert run.out.splitlines() == ["1 1 2", "2 2 4"]


def test_generators_do_not_count_as_active_while_they_wait(inject):
    run = inject(
        """
        def g():
            z = 1
        def f():
            for i in range(2):
                g()
                yield i
        for _ in f():
            g()
        """,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("//f > //g > z").count().print()
        """,
    )
    assert run.out == "2\n"


def test_two_focuses_wrap(inject):
    run = inject(
        "def f(n):\n    a = n\n    b = n + 1\nf(1)\nf(5)\n",
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            def around():
                data = yield
                return data
            ov.probe("//f(!a, !!b)").wmap("a", around).print()
        """,
    )
    assert run.out.splitlines() == ["{'b': 2}", "{'b': 6}"] or "6" in run.out


def test_total_gives_one_event_when_the_function_ends(inject):
    run = inject(
        "def f(n):\n    x = n\n    y = x + 1\nf(1)\nf(5)\n",
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("//f(x, y)").kmap(lambda x, y: (x, y)).print()
        """,
    )
    assert run.out.splitlines() == ["(1, 2)", "(5, 6)"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("//f > x=2", [2]),
        ("//f(n=1) > x", [1]),
        ("//f > x~odd", [1, 3]),
        ("//f() as r", [10, 20, 30]),
        ("//f > #enter", [True] * 3),
        ("//f > #value", [10, 20, 30]),
        ("//f > $any:@Tagged", [0.5] * 3),
        ("// > total", [10, 30, 60]),
        ("//f > self_like.y", [1, 2, 3]),
    ],
)
def test_forms_of_selectors(selector, expected, inject):
    run = inject(
        """
        class O: pass
        total = 0
        def f(n):
            x = n
            w: "@Tagged" = 0.5
            self_like = O()
            self_like.y = n
            return n * 10
        for n in (1, 2, 3):
            total = total + f(n)
        """,
        f"""
        def odd(x):
            return x % 2
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("{selector}").map(lambda d: list(d.values())[0]).accum(seen)
            yield ov.phases.run_script
            print(seen)
        seen = []
        """,
    )
    values = eval(run.out)
    if selector == "// > total":
        values = values[1:]  # the first assignment is total = 0
    assert values == expected


def test_code_already_loaded_and_builtins(inject):
    run = inject(
        """
        import json, textwrap, time
        print(json.dumps([1]), textwrap.dedent("  a"))
        time.sleep(0)
        """,
        """
        import json, textwrap, time
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("json.dumps() as text")["text"].print("dumps {}")
            ov.probe("/textwrap/dedent(text) > #enter").print("dedent")
            ov.probe("time.sleep > #enter").print("sleep")
        """,
    )
    assert run.exit == 0, run.err
    assert run.out.splitlines() == ["dumps [1]", "dedent", "[1] a", "sleep"]


def test_every_process_the_program_makes_of_itself(inject):
    run = inject(
        """
        import multiprocessing, os, sys, subprocess
        def work(n):
            value = n * 2
            return value
        if __name__ == "__main__":
            if len(sys.argv) > 1:
                work(7)
                sys.exit()
            for method in ("fork", "spawn", "forkserver"):
                process = multiprocessing.get_context(method).Process(target=work, args=(1,))
                process.start()
                process.join()
            subprocess.run([sys.executable, __file__, "again"], check=True)
            work(0)
        """,
        'def instrument_a(ov):\n    ov.value("//work > value")\n',
    )
    assert run.exit == 0, run.err
    assert run.fired == {"//work > value": 5}
    assert len(run.record["processes"]) >= 5


def test_threads_and_async(inject):
    run = inject(
        """
        import asyncio, threading
        def work(n):
            value = n
        async def coroutine(n):
            await asyncio.sleep(0)
            value = n
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        async def main():
            await asyncio.gather(*(coroutine(n) for n in range(3)))
        asyncio.run(main())
        """,
        'def instrument_a(ov):\n    ov.value("//work > value")\n    ov.value("//coroutine > value")\n',
    )
    assert run.fired == {"//work > value": 4, "//coroutine > value": 3}


def test_several_voirfiles_on_one_place_compose(inject, tmp_path):
    (tmp_path / "y.py").write_text(
        'def instrument_b(ov):\n    ov.override("//train > loss", lambda loss: loss * 2)\n'
    )
    run = inject(
        "def train():\n    loss = 3\n    print(loss)\ntrain()\n",
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("//train > loss")["loss"].print("saw {}")
            # Set last, after the other voirfile's, so it acts last; what observes sees the outcome.
            ov.override("//train > loss", lambda loss: loss + 1)
        """,
        "--voirfile",
        "y.py",
    )
    assert run.out.splitlines() == ["saw 7", "7"]


def test_give_in_another_thread_arrives(inject):
    run = inject(
        """
        import threading
        from giving import give
        thread = threading.Thread(target=lambda: give(x=1))
        thread.start()
        thread.join()
        give(x=2)
        """,
        "def instrument_a(ov):\n    yield ov.phases.init\n    ov.given['x'].print()\n",
    )
    assert run.out.split() == ["1", "2"]


def test_a_subscriber_that_raises_does_not_reach_the_program(inject):
    run = inject(
        "from giving import give\ngive(x=1)\nprint('on')\n",
        "def instrument_a(ov):\n    yield ov.phases.init\n    ov.given['x'].map(lambda x: 1 / 0).print()\n",
    )
    assert (run.exit, run.out) == (0, "on\n")
    assert "ZeroDivisionError" in run.err


def test_the_fast_api(inject):
    run = inject(
        """
        import time
        def make():
            return [[1, 2, 3]] * 6
        def forward(x):
            time.sleep(0.001)
            return x
        def main():
            loader = make()
            assert isinstance(loader, list) and len(loader) == 6
            for batch in loader:
                forward(batch)
        main()
        """,
        """
        def instrument_a(ov):
            ov.loader("//main > loader", items=len)
            ov.region("//forward", "forward")
            ov.step("//forward", task="steps")
        """,
    )
    assert run.exit == 0, run.err
    rates = [d for d in run.events("data") if d["task"] == "train"]
    assert [d["batch_size"] for d in rates] == [3] * 6
    assert all(0 <= d["io"] <= d["elapsed"] for d in rates)
    assert len([d for d in run.events("data") if d["task"] == "steps"]) == 6
    forward = run.spans("forward")
    assert len(forward) == 6 and all(end - start >= 1_000_000 for start, end, _ in forward)
    assert {payload for _, _, payload in run.spans("io")} == {3}


def test_without_a_voirfile_nothing_of_voir_is_imported(inject):
    program = """
    import sys
    print([m for m in ("voir", "giving", "reactivex", "ptera", "yaml") if m in sys.modules])
    """
    assert inject(program).out == "[]\n"
    assert inject(program, 'def instrument_a(ov):\n    ov.value("// > x")\n').out == "[]\n"


def test_gpu_monitor_runs_where_there_is_no_gpu(inject):
    run = inject(
        "import time\ntime.sleep(0.3)\nprint('done')\n",
        """
        from voir.instruments import gpu_monitor, log
        def instrument_a(ov):
            yield ov.phases.init
            ov.require(gpu_monitor(poll_interval=0.1), log("gpudata", "+task"))
        """,
    )
    assert (run.exit, run.out) == (0, "done\n"), run.err


def test_a_probe_counts_events_and_not_calls_of_its_hook(inject):
    run = inject(
        """
        def g(n):
            z = n
        def f(n):
            g(n)
            x = n
        for n in range(4):
            f(n)
            g(n)
        """,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.probe("//f > x=2").print()
            ov.probe("//f > x=99").print()
            ov.probe("//f > //g > z").subscribe(lambda _: None)
            ov.probe("//f(n, x)").subscribe(lambda _: None)
            ov.probe("//f(!n, !!x)").subscribe(lambda _: None)
            ov.probe("//f > x", overridable=True).override(lambda _: 0)
        """,
    )
    assert run.fired == {
        "//f > x=2": 0,  # the override acts first: what observes sees 0
        "//f > x=99": 0,
        "//f > //g > z": 4,
        "//f(n, x)": 4,
        "//f(!n, !!x)": 4,
        "//f > x": 4,
    }
    assert run.err.count("never fired") >= 2


def test_two_probes_of_one_selector_are_kept_apart(inject):
    run = inject(
        LOOP,
        'def instrument_a(ov):\n    ov.value("//train > loss")\n    ov.override("//train > loss", float)\n',
    )
    first, second = run.record["probes"]
    assert first["selector"] == "//train > loss"
    assert second["selector"].startswith("//train > loss (")
    assert (first["fired"], second["fired"]) == (5, 5)


def test_check_says_that_an_instrument_raises(tmp_path):
    (tmp_path / "main.py").write_text(LOOP)
    (tmp_path / "x.py").write_text(
        "def instrument_a(ov):\n    yield ov.phases.load_script\n    ov.vlaue('//train > loss')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "injector", "check", "main.py", "--voirfile", "x.py"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "instrument_a" in done.stderr
    assert "vlaue" in done.stderr


def test_what_fired_before_the_program_became_another_is_counted(inject):
    run = inject(
        """
        import os, sys
        def f(x):
            y = x * 2
        for i in range(3):
            f(i)
        if len(sys.argv) == 1:
            try:
                os.execv("/nonexistent", ["x"])
            except FileNotFoundError:
                f(9)
            os.execv(sys.executable, [sys.executable, "main.py", "again"])
        """,
        'def instrument_a(ov):\n    ov.value("//f > y")\n',
    )
    assert run.exit == 0, run.err
    [probe] = run.record["probes"]
    assert (probe["fired"], probe["exact"]) == (7, True)
