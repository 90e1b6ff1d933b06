"""Makes texts that a word decides about, and a configuration for them: ``prepare.py FOLDER``."""

import random
import subprocess
import sys
from pathlib import Path

import spacy
from spacy.tokens import DocBin

TEXT = "the a film was very much of it and so as to be in one with all that this for"
WORDS = TEXT.split()


def texts(number: int, path: Path) -> None:
    """``number`` texts of 30 words, one of which says what the text is."""
    make, found = spacy.blank("en"), DocBin()
    for _ in range(number):
        good = random.random() < 0.5
        words = [*random.choices(WORDS, k=29), "fine" if good else "poor"]
        random.shuffle(words)
        text = make(" ".join(words))
        text.cats = {"good": float(good), "bad": float(not good)}
        found.add(text)
    found.to_disk(path)


def main(folder: Path) -> None:
    """Write ``train.spacy``, ``dev.spacy`` and ``config.cfg``."""
    folder.mkdir(parents=True, exist_ok=True)
    random.seed(0)
    texts(2000, folder / "train.spacy")
    texts(100, folder / "dev.spacy")
    command = [sys.executable, "-m", "spacy", "init", "config", folder / "config.cfg"]
    subprocess.run([*command, "--pipeline", "textcat", "--lang", "en"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
