"""Hugging Face's Trainer on a tiny random BERT; reported.RANK.json says what the trainer counted."""

import argparse
import json
import os
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--several", action="store_true", help="two evaluation sets")
options = parser.parse_args()


class Counting(Trainer):
    passes = 0

    def evaluation_loop(self, *args, **kwargs):
        self.passes += 1
        return super().evaluation_loop(*args, **kwargs)


def rows(count):
    torch.manual_seed(count)
    words = torch.randint(1, 50, (count, 6))
    return [{"input_ids": row, "labels": int(row.sum() % 2)} for row in words]


def main():
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
    )
    trainer = Counting(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir="out",
            use_cpu=True,
            num_train_epochs=2,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=4,
            gradient_accumulation_steps=options.accumulate,
            eval_strategy="epoch",
            logging_strategy="steps",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=rows(40),
        eval_dataset={"a": rows(8), "b": rows(12)} if options.several else rows(8),
    )
    trainer.train()
    trainer.predict(rows(8))
    history = trainer.state.log_history
    reported = {
        "rank": trainer.args.process_index,
        "global_step": trainer.state.global_step,
        "epoch": trainer.state.epoch,
        "passes": trainer.passes,
        "losses": [entry["loss"] for entry in history if "loss" in entry],
        "eval_losses": [entry["eval_loss"] for entry in history if "eval_loss" in entry],
    }
    with open(f"reported.{reported['rank']}.json", "w") as file:
        json.dump(reported, file)


if __name__ == "__main__":
    main()
