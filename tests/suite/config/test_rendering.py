"""argv, placeholders, conditions and capabilities of a benchmark that is about to run."""

from __future__ import annotations

import pytest

from injector.suite.config.model import Benchmark
from injector.suite.config.problems import SuiteError, Where


def test_a_map_of_options_becomes_a_command_line(suites):
    argv = suites.argv("""
        one:
          run: x.py
          argv:
            --lr: 0.01
            --bare: true
            --dropped: null
            --list: [1, b, 2.5]
            train: true
            key=3: true
            --empty: ""
            --: [-x, 3]
            --last: yes it is
        """)
    assert argv == {
        "one": "train key=3 --lr 0.01 --bare --list 1,b,2.5 --empty  -x 3 --last yes it is"
    }


def test_a_list_of_arguments_stays_as_it_is(suites):
    assert suites.argv("one: {run: x, argv: [a, --b, 3, '{out}/c', true, 1.0]}\n") == {
        "one": "a --b 3 /o/c True 1.0"
    }


def test_no_arguments_are_none(suites):
    assert suites.argv("one: {run: x}\ntwo: {run: x, argv: {}}\n") == {"one": "", "two": ""}


def test_a_server_and_its_client(suites):
    text = """
        one:
          run: x
          server: {argv: {model: true, --tp: "{gpu_count}"}}
          client: {argv: {--n: 3}}
        """
    assert suites.argv(text) == {"one": "model --tp 8 -- --n 3"}


def test_placeholders_of_machine_job_folders_and_benchmark(suites):
    made = suites.one("""
        one:
          run: x.py
          group: g
          install_group: ig
          argv:
            - "{arch} {device_name} {ccl} {gpu_count} {cpu_count} {cpu_per_gpu} {n_worker}"
            - "{device_count} {devices} {name} {milabench_name} {base} {data} {out} {source} {cache}"
            - "{milabench_base} {milabench_data} {milabench_cache} {milabench_runs}"
            - "{milabench_extra} {milabench_venv} {gpu.count} {nodes[0].name} {system.arch}"
        """)
    assert made.argv(suites.context) == [
        "cuda cuda nccl 8 64 8 8",
        "1 cuda:0 one one /b /b/data/x /o /s /b/cache",
        "/b /b/data /b/cache /b/runs",
        "/b/extra/g /b/venv/ig 8 local cuda",
    ]
    rocm = {**suites.context, "arch": "rocm", "gpu_count": 0, "cpu_count": 200}
    assert made.argv(rocm)[0] == "rocm cuda rccl 0 200 200 16"


def test_what_is_given_wins_over_what_would_follow(suites):
    made = suites.one("one: {run: x, argv: ['{n_worker} {cache}']}\n")
    assert made.argv({**suites.context, "n_worker": 5, "cache": "/c"}) == ["5 /c"]


def test_references_between_keys(suites):
    made = suites.one("""
        one:
          run: x.py
          plan: {method: njobs, n: 3}
          env: {B: "{argv.--batch}"}
          argv:
            --batch: 32
            --steps: "{argv.--batch * plan.n}"
            --same: "${.--batch}"
            --up: "${..plan.n}"
            --tags: "{tags}"
          tags: [a, b]
        """)
    filled = made.filled(suites.context)
    assert filled["env"] == {"B": 32}
    assert filled["argv"] == {
        "--batch": 32,
        "--steps": 96,
        "--same": 32,
        "--up": 3,
        "--tags": ["a", "b"],
    }
    assert made.arguments(filled) == made.argv(suites.context)


def test_filling_leaves_the_settings_and_people_s_texts_alone(suites):
    made = suites.one("""
        one: {run: x, description: "uses {braces} freely", url: "http://x/{y}", argv: {--n: "{gpu_count}"}}
        """)
    before = repr(made.settings)
    filled = made.filled(suites.context)
    assert filled["description"] == "uses {braces} freely"
    assert filled["url"] == "http://x/{y}"
    assert filled["argv"] == {"--n": 8}
    assert repr(made.settings) == before


def test_auto_takes_the_machine_s_word_only_where_that_is_requested(suites):
    text = (
        "one: {run: x, argv: ['auto({n_worker}, 3)', 'batch=auto_batch(128)', 'auto_batch(16)']}\n"
    )
    made = suites.one(text)
    assert made.argv(suites.context) == ["3", "batch=128", "16"]
    assert made.argv({**suites.context, "auto_cpus": True})[0] == "8"
    resized = {**suites.context, "auto_batch": lambda default: default * 2}
    assert made.argv(resized) == ["3", "batch=256", "32"]
    entry = suites.one("system: {options: {cpu: {enabled: true, max: 6}}}\n" + text)
    assert entry.argv(suites.context)[0] == "6"
    entry = suites.one(
        text, parameters=["system.options.cpu.enabled=true", "system.options.cpu.n_workers=1"]
    )
    assert entry.argv(suites.context)[0] == "1"


def test_everything_that_cannot_be_filled_is_reported_at_once(suites):
    made = suites.one("""
        one:
          run: x.py
          env: {A: "{data}"}
          argv:
            --a: "{out}/{gpu.name}"
            --b: "{argv.--c + 1}"
            --c: text
        """)
    with pytest.raises(SuiteError) as caught:
        made.argv({"base": "/b", "gpu": {"count": 1}})
    assert suites.messages(caught.value) == [
        "suite.yaml:6: one.argv.--a: {out} has no value here: out is missing",
        "suite.yaml:7: one.argv.--b: the text 'text' is not a number",
    ]
    with pytest.raises(SuiteError) as caught:
        made.filled({"base": "/b", "out": "/o", "gpu": {"count": 1}})
    assert [line.split(": ")[0] for line in suites.messages(caught.value)] == [
        f"suite.yaml:{line}" for line in (4, 6, 7)
    ]


def test_a_value_of_a_wrong_kind_is_reported_when_it_is_known(suites):
    made = suites.one(
        "one: {run: x, voir: {options: {stop: '{gpu_count}'}}, batch: {default: '{arch}'}}\n"
    )
    with pytest.raises(
        SuiteError, match=r"{arch}: should be a whole number of at least 1, not the text 'cuda'"
    ):
        made.filled(suites.context)


def test_an_argument_that_comes_out_false_is_reported(suites):
    made = suites.one("one: {run: x, argv: {--a: '{gpu_count > 99}'}}\n")
    with pytest.raises(SuiteError, match=r"one.argv.--a: .*false is no argument; null drops it"):
        made.argv(suites.context)
    assert suites.one("one: {run: x, argv: {--a: '{gpu_count > 1}'}}\n").argv(suites.context) == [
        "--a"
    ]


# when


WHEN = """
one:
  run: x.py
  argv: {--batch: 16, --fp: 32}
  when:
    gpu_count >= 8 and arch == 'cuda':
      argv: {--batch: 64}
      tags: [big]
    argv.--batch > 32:
      argv: {--fp: 16, --extra: null}
      max_duration: 9
"""


def test_conditions_set_values_in_their_order_and_see_what_was_set(suites):
    big = suites.one(WHEN)
    assert big.settings["argv"] == {"--batch": 64, "--fp": 16}
    assert (big.tags, big.max_duration) == (("big",), 9)
    assert "when" not in big.settings
    small = suites.one(WHEN, facts={"arch": "cuda", "gpu_count": 1})
    assert small.settings["argv"] == {"--batch": 16, "--fp": 32}


def test_a_condition_about_what_is_not_known_yet_waits(suites):
    made = suites.one(WHEN, facts={})
    assert list(made.settings["when"]) == ["gpu_count >= 8 and arch == 'cuda'", "argv.--batch > 32"]
    assert made.argv(suites.context) == ["--batch", "64", "--fp", "16"]
    assert made.argv({**suites.context, "gpu_count": 1}) == ["--batch", "16", "--fp", "32"]
    assert "when" not in made.filled(suites.context)


def test_the_command_line_is_seen_by_conditions_and_has_the_last_word(suites):
    made = suites.one(WHEN, overrides=["one.argv.--batch=40"])
    assert made.settings["argv"] == {"--batch": 40, "--fp": 16}
    made = suites.one(WHEN, overrides=["one.argv.--fp=8"])
    assert made.settings["argv"] == {"--batch": 64, "--fp": 8}


def test_the_command_line_has_the_last_word_over_conditions_that_wait(suites):
    for pattern in ("one", "o*"):
        made = suites.one(WHEN, facts={}, overrides=[f"{pattern}.argv.--fp=8"])
        assert made.argv(suites.context) == ["--batch", "64", "--fp", "8"]


def test_values_given_above_stand_over_conditions_below(suites):
    argv = suites.argv(
        """
        _base:
          run: x.py
          argv: {--batch: 16, --lr: 1, --size: 1}
          when:
            gpu_count > 1: {argv: {--batch: 64, --lr: 2, --size: 2}, max_duration: 9}
        one: {inherits: _base, argv: {--batch: 8, --size: null}}
        two: {inherits: _base, when: {gpu_count > 1: {argv: {--batch: 128}}}}
        """
    )
    assert argv == {"one": "--batch 8 --lr 2", "two": "--batch 128 --lr 2 --size 2"}


def test_conditions_within_a_matrix(suites):
    argv = suites.argv("""
        one:
          matrix: {model: [small, large]}
          job:
            run: x.py
            argv: {--model: "{model}", --batch: 64}
            when:
              model == 'large': {argv: {--batch: "{len(model)}"}}
        """)
    assert argv == {"one-small": "--model small --batch 64", "one-large": "--model large --batch 5"}


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (
            "{gpu_cout > 1: {weight: 1}}",
            "one.when.gpu_cout > 1: unknown name gpu_cout; did you mean gpu_count?",
        ),
        ("{gpu_count >: {weight: 1}}", "ends too early"),
        ("{arch > 1: {weight: 1}}", "the text 'cuda' is not a number"),
        ("{gpu_count > 1: {wieght: 1}}", "unknown key wieght; did you mean weight?"),
        ("{gpu_count > 1: {matrix: {a: [1]}}}", "unknown key matrix"),
        ("{gpu_count > 1: 3}", "should be a map, not the number 3"),
        ("[gpu_count > 1]", "should be a map, not a list"),
    ],
)
def test_what_is_wrong_with_a_condition(suites, when, message):
    found = suites.problems(f"one:\n  run: x\n  when: {when}\n")
    assert any(message in line for line in found), found


# capabilities


def test_capabilities_that_are_not_met_are_reported_as_they_were_written(suites):
    made = suites.one("""
        one:
          run: x
          num_machines: 2
          requires_capabilities: ["gpu['count'] > 1", "len(nodes) >= ${..num_machines}"]
        """)
    assert made.unmet(suites.context) == ("len(nodes) >= ${..num_machines}",)
    assert made.unmet({**suites.context, "gpu_count": 0, "gpu": {"count": 0}}) == tuple(
        made.settings["requires_capabilities"]
    )
    nodes = [{"name": "a"}, {"name": "b"}]
    assert made.unmet({**suites.context, "nodes": nodes}) == ()


def test_nodes_come_from_the_system_file(suites):
    suites.write(cluster="system: {arch: rocm, nodes: [{name: a, ip: 1.2.3.4}, {name: b}]}\n")
    made = suites.load("""
        include: cluster.yaml
        one:
          run: x
          requires_capabilities: [len(nodes) == 2]
          argv: ["{system.arch}", "{nodes[0].ip}", "{nodes[1]['name']}"]
        """)
    (one,) = made.benchmarks
    assert made.system["arch"] == "rocm"
    assert one.unmet(suites.context) == ()
    assert one.argv(suites.context) == ["rocm", "1.2.3.4", "b"]


def test_a_capability_no_one_can_judge_is_a_mistake(suites):
    (found,) = suites.problems("one: {run: x, requires_capabilities: [ok >]}\n")
    assert "ends too early" in found
    (found,) = suites.problems("one: {run: x, requires_capabilities: [gpus > 1]}\n")
    assert (
        found == "suite.yaml:1: one.requires_capabilities.0: unknown name gpus; did you mean gpu?"
    )


# what other parts build for themselves


def test_a_benchmark_made_by_hand_can_be_filled():
    made = Benchmark(
        "b",
        Where("f.yaml", 3, "b"),
        {"argv": {"--d": "{data}", "--n": "{plan.n}"}, "plan": {"n": 2}},
    )
    assert made.argv({"data": "/d"}) == ["--d", "/d", "--n", "2"]
    assert made.with_settings(argv=["{name}"]).argv({}) == ["b"]
    assert (made.group, made.install_group, made.weight, made.enabled) == ("b", "b", 1, True)
    assert (made.plan, made.max_duration) == ({"method": "per_gpu", "n": 2}, 600)


def test_settings_that_were_changed_afterwards_are_filled_as_they_are(suites):
    made = suites.one("one: {run: x, argv: {--a: '{out}'}}\n")
    changed = made.with_settings(argv={"--b": "{gpu_count}"})
    assert changed.argv(suites.context) == ["--b", "8"]
