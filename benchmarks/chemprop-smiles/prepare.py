"""Makes molecules and a property of them. ``prepare.py FOLDER``."""

import random
import sys
from pathlib import Path

PARTS = ("C", "CC", "C(=O)", "N", "O", "c1ccccc1", "C(F)", "C(Cl)", "S", "C1CCCC1", "C(N)", "C(O)")
MOLECULES = 1000


def molecule(chance: random.Random) -> str:
    """A chain of parts: every one of these is a valid SMILES text."""
    return "C" + "".join(chance.choices(PARTS, k=chance.randint(2, 8)))


def main(folder: Path) -> None:
    """Write ``molecules.csv`` into ``folder``."""
    chance = random.Random(1)
    lines = ["smiles,value"]
    for _ in range(MOLECULES):
        text = molecule(chance)
        lines.append(f"{text},{1.3 * text.count('O') - text.count('N') + 0.1 * len(text):.3f}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "molecules.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
