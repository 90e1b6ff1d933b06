"""Trains an image classifier of transformers with random weights, on made-up pictures.

The loop is that of the Trainer of Hugging Face, or of Lightning. The pictures have stripes, whose direction
is what is learnt.
"""

import argparse

import torch
from transformers import (
    AutoModelForImageClassification,
    MobileNetV2Config,
    ResNetConfig,
    Trainer,
    TrainingArguments,
    ViTConfig,
)

CONFIGS = {"resnet50": ResNetConfig, "vit": ViTConfig, "mobilenet_v2": MobileNetV2Config}


class Pictures(torch.utils.data.Dataset):
    """``number`` pictures, float32 of 3 × ``size`` × ``size``, each made when it is fetched."""

    def __init__(self, number, size, classes):
        self.number, self.size, self.classes = number, size, classes

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(index)
        wanted = index % self.classes
        angle = torch.tensor(wanted * torch.pi / self.classes)
        y, x = torch.meshgrid(torch.arange(self.size), torch.arange(self.size), indexing="ij")
        stripes = torch.sin((x * angle.cos() + y * angle.sin()) * 0.6)
        noise = torch.randn(3, self.size, self.size, generator=random) / 2
        return {"pixel_values": stripes + noise, "labels": wanted}


def classifier(options):
    config = CONFIGS[options.model](num_labels=options.classes)
    if hasattr(config, "image_size"):
        config.image_size = options.size
    if options.model == "vit":  # the tiny one for small pictures, else the small one
        tiny = options.size < 128
        config.hidden_size, config.num_attention_heads = (192, 3) if tiny else (384, 6)
        config.intermediate_size, config.patch_size = 4 * config.hidden_size, 8 if tiny else 16
    return AutoModelForImageClassification.from_config(config)


def train_by_trainer(options, model, pictures):
    arguments = TrainingArguments(
        output_dir=options.out,
        per_device_train_batch_size=options.batch_size,
        num_train_epochs=options.epochs,
        dataloader_num_workers=options.workers,
        use_cpu=options.device == "cpu",
        save_strategy="no",
        report_to="none",
        logging_steps=10,
    )
    Trainer(model=model, args=arguments, train_dataset=pictures).train()


def train_by_lightning(options, model, pictures):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            return self.model(**batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=5e-5)

    loader = torch.utils.data.DataLoader(
        pictures, batch_size=options.batch_size, num_workers=options.workers, shuffle=True
    )
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu" if options.device == "cpu" else "auto",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        default_root_dir=options.out,
    )
    trainer.fit(Module(), loader)


LOOPS = {"trainer": train_by_trainer, "lightning": train_by_lightning}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=CONFIGS, default="resnet50")
    parser.add_argument("--loop", choices=LOOPS, default="trainer")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=64, help="pixels of a side")
    parser.add_argument("--number", type=int, default=1280, help="pictures of an epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="out", help="the folder that the loop may write to")
    options = parser.parse_args()
    torch.manual_seed(0)
    pictures = Pictures(options.number, options.size, options.classes)
    LOOPS[options.loop](options, classifier(options), pictures)


if __name__ == "__main__":
    main()
