"""Configurations in milabench's style expand to its benchmarks and command lines.

The files are our own; that milabench's expand alike was checked against milabench itself
(docs/suites.md says how).
"""

from __future__ import annotations

import pytest

DEFAULTS = """
_defaults:
  enabled: false
  max_duration: 600
  voir:
    options: {stop: 60, interval: "1s"}
  validation:
    usage: {gpu_load_threshold: 0.5, gpu_mem_threshold: 0.5}
"""

BASE = """
include:
  - _defaults.yaml

_pictures:
  inherits: _defaults
  definition: ../benches/pictures
  group: pictures
  install_group: torch
  plan: {method: per_gpu}
  argv:
    --precision: half
    --rate: 0.01
    --quiet: true
    --workers: "auto({n_worker}, 8)"
    --data: "{milabench_data}/Fake"

_finetune:
  inherits: _defaults
  definition: ../benches/finetune
  max_duration: 3600
  num_machines: 1
  tags: [llm]

_listed:
  inherits: _defaults
  definition: ../benches/listed
  tags: [image]
  argv: [--output-dir, "{milabench_extra}/output"]

pictures-small:
  inherits: _pictures
  tags: [vision, monogpu]
  voir: {options: {stop: 30}}
  argv:
    --model: small
    --batch-size: "auto_batch(256)"

finetune-gpus:
  inherits: _finetune
  tags: [multigpu]
  plan: {method: njobs, n: 1}
  url: https://models/some
  requires_capabilities: ["gpu['count'] > 1"]
  argv:
    scripts/finetune.py: true
    --config: "{milabench_code}/conf.yaml"
    epochs=1: true
    output={milabench_extra}/out: true
    tokens={milabench_data}/m/tokens: true
    batch_size=auto_batch(8): true
    device={device_name}: true

finetune-nodes:
  inherits: _finetune
  tags: [multinode]
  plan: {method: njobs, n: 1}
  num_machines: 2
  requires_capabilities: ["len(nodes) >= ${..num_machines}"]
  argv: {run: true}

listed-one:
  inherits: _listed
  plan: {method: per_gpu}
  tags: [monogpu]
  argv:
    - --config-file
    - "{benchmark_folder}/c.yaml"
    - data=Images:root={milabench_data}/F:extra={milabench_data}/F
    - batch=auto_batch(32)

served:
  inherits: _defaults
  definition: ../benches/served
  plan: {method: njobs, n: 1}
  tags: [multigpu]
  server: {argv: {org/model-7b: true, --parallel: "{gpu_count}", --limit: '{"image":10}'}}
  client: {argv: {--n: 500, --backend: openai}}
"""

TOP = """
include: base.yaml

pictures-small: {enabled: true, weight: 1.0}
finetune-gpus: {enabled: True, weight: 2.0}
finetune-nodes: {enabled: true, weight: 0}
listed-one: {enabled: true}

serve-sweep:
  matrix:
    concurrency: [8, 64]
    context: [1024]
  job:
    name: "serve-c{concurrency}"
    inherits: served
    enabled: true
    client: {argv: {--n: "expr({concurrency} * 10)"}}
    server: {argv: {--max: "{concurrency}", --context: "{context}"}}
"""


@pytest.fixture
def made(suites):
    for name in ("pictures", "finetune", "listed", "served"):
        folder = suites.folder / "benches" / name
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text("run: main.py\n")
    suites.write(config___defaults=DEFAULTS, config__base=BASE, config__top=TOP)
    (suites.folder / "config" / "_defaults.yaml").write_text(DEFAULTS)
    return {each.name: each for each in suites.load(name="config/top").benchmarks}


def test_the_benchmarks_and_which_of_them_run(made):
    assert {name: each.enabled for name, each in made.items()} == {
        "pictures-small": True,
        "finetune-gpus": True,
        "finetune-nodes": True,
        "listed-one": True,
        "served": False,
        "serve-c8": True,
        "serve-c64": True,
    }


def test_command_lines(made, suites):
    code = suites.folder / "benches"
    spoken = {name: " ".join(each.argv(suites.context)) for name, each in made.items()}
    assert spoken == {
        "pictures-small": "--precision half --rate 0.01 --quiet --workers 8 --data /b/data/Fake"
        " --model small --batch-size 256",
        "finetune-gpus": "scripts/finetune.py epochs=1 output=/b/extra/finetune-gpus/out"
        " tokens=/b/data/m/tokens batch_size=8 device=cuda"
        f" --config {code}/finetune/conf.yaml",
        "finetune-nodes": "run",
        "listed-one": f"--config-file {code}/listed/c.yaml"
        " data=Images:root=/b/data/F:extra=/b/data/F batch=32",
        "served": 'org/model-7b --parallel 8 --limit {"image":10} -- --n 500 --backend openai',
        "serve-c8": 'org/model-7b --parallel 8 --limit {"image":10} --max 8 --context 1024'
        " -- --n 80 --backend openai",
        "serve-c64": 'org/model-7b --parallel 8 --limit {"image":10} --max 64 --context 1024'
        " -- --n 640 --backend openai",
    }


def test_merged_settings(made):
    pictures = made["pictures-small"]
    assert pictures.settings["voir"] == {"options": {"stop": 30, "interval": "1s"}}
    assert pictures.settings["validation"]["usage"]["gpu_load_threshold"] == 0.5
    assert (pictures.group, pictures.install_group, pictures.weight) == ("pictures", "torch", 1.0)
    assert pictures.tags == ("vision", "monogpu")
    finetune = made["finetune-gpus"]
    assert (finetune.max_duration, finetune.plan) == (3600, {"method": "njobs", "n": 1})
    assert sorted(finetune.tags) == ["llm", "multigpu"]
    assert made["listed-one"].tags == ("image", "monogpu")
    assert made["serve-c8"].settings["matrix"] == {"concurrency": 8, "context": 1024}


def test_capabilities(made, suites):
    assert made["finetune-gpus"].unmet(suites.context) == ()
    assert made["finetune-gpus"].unmet({**suites.context, "gpu_count": 1}) == ("gpu['count'] > 1",)
    assert made["finetune-nodes"].unmet(suites.context) == ("len(nodes) >= ${..num_machines}",)


def test_keys_that_only_milabench_acts_on_are_taken(suites):
    made = suites.one("""
        multirun: {runs: [{name: "m{sizer.mult}", matrix: {sizer.mult: [1, 2]}}]}
        one:
          run: x
          group: "${.name}"
          install_group: "${.group}"
          use_deepspeed: true
          docker_image: "image:${system.arch}"
          install_variant: unpinned
          accelerate: [--x]
          capabilities: {nodes: 1}
          dirs: {venv: "${system.base}/venv"}
        """)
    assert (made.group, made.install_group) == ("one", "one")


# the sweep of DLBS

SWEEP = """
variables:
  exp:
    framework: mxnet
    gpus: "0"
    model: alexnet
    replica_batch: 8
    num_gpus: "{len(split(exp.gpus))}"
    effective_batch: "{exp.num_gpus * exp.replica_batch}"
    log_file: "${exp.model}.log"
train:
  name: "${exp.framework}-${exp.model}-${exp.num_gpus}"
  run: "${exp.framework}.py"
  env: {CUDA_VISIBLE_DEVICES: "${exp.gpus}"}
  argv:
    --model: "${exp.model}"
    --batch: "${exp.effective_batch}"
    --image: "${${exp.framework}.docker_image}"
    --docker: "${exp.docker}"
    --warmup: "${exp.num_warmup_batches}"
    --batches: "${exp.num_batches}"
    --phase: "${exp.phase}"
    --log: "${exp.log_file}"
"""

VARIABLES = [
    'exp.framework=["mxnet", "tensorflow", "caffe2"]',
    'exp.gpus=["0", "0,1", "0,1,2,3"]',
    'exp.model=["resnet50"]',
    "exp.replica_batch=[16]",
]
PARAMETERS = [
    "exp.docker=true",
    "exp.num_warmup_batches=10",
    "exp.num_batches=100",
    'exp.phase="training"',
    'exp.log_file="${BENCH_ROOT}/logs/${exp.framework}/'
    '${exp.model}_${exp.num_gpus}_${exp.effective_batch}.log"',
    'mxnet.docker_image="hpe/mxnet:cuda9-cudnn7"',
    'caffe2.docker_image="hpe/caffe2:cuda8-cudnn6"',
    'tensorflow.docker_image="nvcr.io/nvidia/tensorflow:17.11"',
]


def test_the_sweep_of_dlbs_makes_nine_runs_with_their_logs(suites, monkeypatch):
    monkeypatch.setenv("BENCH_ROOT", "/bench")
    made = suites.load(SWEEP, variables=VARIABLES, parameters=PARAMETERS).benchmarks
    assert [each.name for each in made] == [
        f"{framework}-resnet50-{gpus}"
        for framework in ("mxnet", "tensorflow", "caffe2")
        for gpus in (1, 2, 4)
    ]
    logs = [each.argv(suites.context)[-1] for each in made]
    assert logs == [
        f"/bench/logs/{framework}/{log}"
        for framework in ("mxnet", "tensorflow", "caffe2")
        for log in ("resnet50_1_16.log", "resnet50_2_32.log", "resnet50_4_64.log")
    ]
    filled = made[5].filled(suites.context)
    assert filled["run"] == "tensorflow.py"
    assert filled["env"] == {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    assert made[5].argv(suites.context)[:7] == [
        *("--model", "resnet50", "--batch", "64", "--image", "nvcr.io/nvidia/tensorflow:17.11"),
        "--docker",
    ]


def test_without_a_name_a_sweep_names_by_what_differs(suites, monkeypatch):
    monkeypatch.setenv("BENCH_ROOT", "/bench")
    text = "\n".join(line for line in SWEEP.splitlines() if not line.startswith("  name:"))
    made = suites.load(text, variables=VARIABLES, parameters=PARAMETERS).benchmarks
    assert [each.name for each in made][:3] == [
        "train-mxnet-0",
        "train-mxnet-0_1",
        "train-mxnet-0_1_2_3",
    ]
