"""Makes up 170 000 ratings and converts them to LensKit's format: ``prepare.py FOLDER``."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

USERS, FILMS, RATINGS = 943, 1682, 170_000


def main(folder: Path) -> None:
    """Write ``ratings.lk``; few films get most of the ratings."""
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    films = random.zipf(1.3, 4 * RATINGS)
    films = films[films <= FILMS][:RATINGS]
    users = random.integers(1, USERS + 1, len(films))
    pairs = sorted(set(zip(users.tolist(), films.tolist(), strict=True)))
    stars = random.integers(1, 6, len(pairs)).tolist()
    table(
        raw / "ratings.csv",
        ["userId", "movieId", "rating", "timestamp"],
        ([*pair, star, 880_000_000] for pair, star in zip(pairs, stars, strict=True)),
    )
    named = ([film, f"Film {film} (1999)", "Drama"] for film in range(1, FILMS + 1))
    table(raw / "movies.csv", ["movieId", "title", "genres"], named)
    table(raw / "tags.csv", ["userId", "movieId", "tag", "timestamp"], [[1, 1, "x", 880_000_000]])
    lenskit = Path(sys.executable).with_name("lenskit")
    words = [lenskit, "data", "convert", "--movielens", raw, folder / "ratings.lk"]
    subprocess.run(words, check=True)


def table(path: Path, head: list[str], rows) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
