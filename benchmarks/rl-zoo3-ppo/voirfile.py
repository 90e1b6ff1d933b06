"""Environment steps a second, and samples trained a second, of Stable-Baselines3's PPO."""


def instrument_training(ov):
    yield ov.phases.load_script

    learner = "/stable_baselines3.common.on_policy_algorithm/OnPolicyAlgorithm"
    trainer = "/stable_baselines3.ppo.ppo/PPO/train"
    collected = [0]
    trained = [0]

    def count(at):
        collected[0] = at["n_rollout_steps"] * at["rollout_buffer"].n_envs
        trained[0] = 0

    ov.probe(f"{learner}/collect_rollouts(rollout_buffer) > n_rollout_steps").subscribe(count)
    ov.step(f"{learner}/collect_rollouts", task="rollout", items=lambda: collected[0])

    def add(at):
        trained[0] += len(at["rollout_data"].actions)

    ov.probe(f"{trainer} > rollout_data").subscribe(add)
    ov.step(trainer, task="train", items=lambda: trained[0])
    ov.value(f"{trainer} > loss", "loss")
