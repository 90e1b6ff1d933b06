"""Triples a second and loss of pykeen's training loop, a class that its many models share."""


def instrument_training(ov):
    yield ov.phases.load_script

    loop = "/pykeen.training.training_loop/TrainingLoop"
    ov.loader(f"{loop}/_train_epoch > batches", task="train")
    ov.value(f"{loop}/_train_epoch > batch_loss", "loss")
