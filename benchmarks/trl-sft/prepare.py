"""Makes a model with random weights, its tokenizer and a text for it: ``prepare.py FOLDER``."""

import json
import sys
import sysconfig
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MODULES = ("argparse.py", "ast.py", "inspect.py", "typing.py")
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def corpus() -> list[str]:
    """Lines of text that every machine has."""
    library = Path(sysconfig.get_path("stdlib"))
    text = "".join((library / name).read_text(encoding="utf-8") for name in MODULES)
    return [line for line in text.splitlines() if len(line) > 20]


def tokenizer(lines: list[str]) -> PreTrainedTokenizerFast:
    """A byte-pair tokenizer of 500 words, learnt from ``lines``."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = list(SPECIAL.values())
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(lines, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)


def main(folder: Path) -> None:
    """Write ``model/`` and ``text/train.jsonl`` into ``folder``."""
    lines = corpus()
    words = tokenizer(lines)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    words.save_pretrained(folder / "model")
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    (folder / "text").mkdir(parents=True, exist_ok=True)
    with open(folder / "text" / "train.jsonl", "w", encoding="utf-8") as out:
        for start in range(800):
            out.write(json.dumps({"text": "\n".join(lines[start : start + 4])}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
