"""Rated pairs a second of LensKit's matrix factorisation, whose batches no DataLoader makes."""


def instrument_training(ov):
    trainer = "/lenskit.flexmf._implicit/FlexMFImplicitTrainer/train_batch"
    ov.step(trainer, task="train", items=lambda batch: len(batch.users))
    ov.region("/lenskit.flexmf._training/FlexMFTrainingEpoch/make_batch", "io")
