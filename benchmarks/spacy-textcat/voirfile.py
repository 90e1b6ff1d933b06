"""Texts a second of ``spacy train``, whose loop draws batches inside of a generator."""


def instrument_training(ov):
    loop = "/spacy.training.loop/train_while_improving"
    ov.loader(f"{loop} > train_data", task="train", items=lambda batch: len(batch[1]))
    ov.region("/spacy.language/Language/update", "forward", phase="train")
    ov.region("/thinc.optimizers/Optimizer/__call__", "optimizer", outermost=True)
    ov.region("/spacy.language/Language/evaluate", "evaluation", phase="eval")


def instrument_loss(ov):
    known = [0.0]

    def added(losses):
        """What a batch adds: the program sums losses up, and begins anew after each evaluation."""
        before, known[0] = known[0], sum((losses or {}).values())
        return known[0] - before if known[0] >= before else known[0]

    ov.value("/spacy.language/Language/update", "loss", task="train", get=added)
