"""A task copy made and removed, and what git is asked about it, beside plain git. Prints a table.

python -m tests.benchmarks.copies [--files 20000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dispatcher.repository import copies, evidence
from tests.benchmarks import sides

GOAL = 1.0


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def repository(folder: Path, files: int) -> Path:
    """So many files of some lines each, 100 a folder."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Somebody")
    git(folder, "config", "user.email", "somebody@example.invalid")
    for number in range(files):
        place = folder / f"d{number // 100:03d}"
        if number % 100 == 0:
            place.mkdir()
        (place / f"f{number}.txt").write_text(f"file {number}\n" * 20, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


def measure(work: Path, files: int, rounds: int) -> list[list[str]]:
    target = repository(work / f"repository-{files}", files)
    place = work / f"copies-{files}"
    place.mkdir()
    count = iter(range(10**6))

    def ours() -> None:
        number = next(count)
        copy = place / f"ours-{number}"
        copies.prepare(target, copy, marker=f"bench-{number}")
        copies.remove(copy, target)

    def worktree() -> None:
        copy = place / f"worktree-{next(count)}"
        git(target, "worktree", "add", "-q", "--detach", str(copy))
        git(target, "worktree", "remove", "--force", str(copy))

    def clone() -> None:
        copy = place / f"clone-{next(count)}"
        git(place, "clone", "-q", "--shared", str(target), str(copy))
        shutil.rmtree(copy)

    made = sides.alternate(
        {
            "git worktree add + remove": lambda: sides.timed(worktree),
            "task copy made + removed": lambda: sides.timed(ours),
            "git clone --shared + rm": lambda: sides.timed(clone),
        },
        rounds,
    )
    kept = place / "kept"
    copies.prepare(target, kept, marker="bench-kept")
    base = evidence.snapshot(kept)
    (kept / "d000" / "f0.txt").write_text("changed\n", encoding="utf-8")
    (kept / "new.txt").write_text("new\n", encoding="utf-8")
    asked = sides.alternate(
        {
            "git status": lambda: sides.timed(lambda: git(kept, "status", "--porcelain=v2", "--untracked-files=all")),
            "evidence, two files changed": lambda: sides.timed(
                lambda: evidence.inspect(kept, base, base, target=target)
            ),
        },
        rounds,
    )
    rows = []
    for found, goal in ((made, GOAL), (asked, None)):
        beside = next(iter(found.values())).wall
        for name, cost in found.items():
            ratio = cost.wall / beside
            verdict = sides.against(round(ratio, 1), goal) if goal and name.startswith("task") else ""
            rows.append([f"{files:,} files: {name}", sides.ms(cost.wall), f"{ratio:.2f}x", verdict])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="*", default=[50, 20_000])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["HOME"] = place  # nobody's git configuration
        rows = [row for files in given.files for row in measure(Path(place), files, given.rounds)]
    sides.table(["what", "clock", "beside plain git", "goal"], rows)


if __name__ == "__main__":
    main()
