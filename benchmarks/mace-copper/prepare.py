"""Makes shaken copper crystals with energies and forces: ``prepare.py FOLDER``."""

import sys
from pathlib import Path

from ase.build import bulk
from ase.calculators.emt import EMT
from ase.io import write


def main(folder: Path) -> None:
    """Write ``train.xyz``: 96 crystals of eight atoms; effective medium theory tells their forces."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number in range(96):
        atoms = bulk("Cu", "fcc", a=3.6, cubic=True) * (2, 1, 1)
        atoms.rattle(0.1, seed=number)
        atoms.calc = EMT()
        atoms.info["REF_energy"] = atoms.get_potential_energy()
        atoms.arrays["REF_forces"] = atoms.get_forces()
        atoms.calc = None
        made.append(atoms)
    write(folder / "train.xyz", made)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
