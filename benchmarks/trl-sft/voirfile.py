"""Samples a second and loss of any training by the Hugging Face Trainer, trl's among them."""


def instrument_training(ov):
    yield ov.phases.load_script

    trainer = "/transformers.trainer/Trainer"
    ov.loader(f"{trainer}/_run_epoch > epoch_iterator", task="train")
    ov.value(f"{trainer}/training_step > loss", "loss")
