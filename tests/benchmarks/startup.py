"""What a command line costs, beside a bare start of the same Python (`python -c pass`). Prints a table.

    python -m tests.benchmarks.startup [--rounds 15]

The goal is held against the CPU time: on a busy machine the clock also measures the others.
"""

from __future__ import annotations

import argparse
import os
import pty
import sys
import tempfile
from pathlib import Path

from tests.benchmarks import sides

MODELS = """\
credentials:
  zen: {billing: free}
  plan: {billing: subscription}
candidates:
  small: {harness: scripted, model: demo/free-small, credential: zen}
  large: {harness: scripted, model: demo/free-large, credential: zen}
  strong: {harness: scripted, model: demo/strong, credential: plan}
routes:
  trivial: [small, large]
  easy: [small, large]
  medium: [strong]
  hard: [strong]
difficulty:
  - {match: {title: typo}, is: trivial}
limits: {max_load_per_core: 1000, min_free_memory: 1MiB, min_free_disk: 1MiB}
"""
PROGRAM = [sys.executable, "-m", "dispatcher.cli"]
SCRIPT = Path(sys.executable).with_name("dispatcher")

Case = tuple[str, list[str], float]


def cases(folder: Path) -> list[Case]:
    """Name, words, goal as a multiple of the bare start."""
    return [
        ("`--version`", ["--version"], 2),
        ("`--help`", ["--help"], 6.5),
        ("`status`", ["status"], 6),
        ("`status --json`", ["status", "--json"], 6),
        ("`log`", ["log"], 6),
        ("`log --json`", ["log", "--json"], 6),
        ("TAB on a command", ["__complete", "bash", "1", "re"], 6),
        ("TAB on a task", ["__complete", "bash", "2", "show", ""], 6),
        ("TAB on a candidate", ["__complete", "bash", "2", "hold", ""], 6),
        ("`add`, a plain brief", ["add", str(folder / "plain.md")], 8),
        ("`add`, with front matter", ["add", str(folder / "front.md")], 8),
        ("`run`, nothing to do", ["run"], 8),
        ("`add --help`", ["add", "--help"], 8),
    ]


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_", "DISPATCHER"))}
    return {**kept, "HOME": str(folder), "DISPATCHER_HOME": str(folder / "home"), "TERM": "xterm", "COLUMNS": "100"}


def prepare(folder: Path, environ: dict[str, str]) -> list[str]:
    """A home with two tasks that rest, and a hold. Gives the words that start the program: its own script, if there."""
    program = [str(SCRIPT)] if SCRIPT.exists() else PROGRAM
    (folder / "home").mkdir()
    (folder / "home" / "models.yaml").write_text(MODELS, encoding="utf-8")
    (folder / "repository" / ".git").mkdir(parents=True)  # `add` looks for no more than that
    (folder / "plain.md").write_text("# Say it\n\nIn one line.\n", encoding="utf-8")
    front = "---\ntitle: Say it twice\nexpect: report\nverify: [make test]\n---\n\nIn two lines.\n"
    (folder / "front.md").write_text(front, encoding="utf-8")
    for words in (
        ["trust"],
        ["add", str(folder / "plain.md"), str(folder / "front.md")],
        ["pause", "1", "2"],
        ["hold", "small"],
    ):
        sides.process([*program, *words], env=environ, cwd=folder / "repository")
    return program


def on_a_terminal(words: list[str], environ: dict[str, str], cwd: Path) -> sides.Cost:
    """The same with a pty as its output, so that tables are Rich's."""
    ours, theirs = pty.openpty()
    try:
        return sides.process(words, env=environ, cwd=cwd, stdout=theirs)
    finally:
        os.close(theirs)
        os.close(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        environ = environment(folder)
        program = prepare(folder, environ)
        cwd = folder / "repository"
        wanted = cases(folder)
        measured = {"bare": lambda: sides.process([sys.executable, "-c", "pass"], env=environ, cwd=cwd)}
        for name, words, _ in wanted:
            measured[name] = lambda words=words: sides.process([*program, *words], env=environ, cwd=cwd)  # type: ignore[misc]
        rich = "`status`, a table on a terminal"
        measured[rich] = lambda: on_a_terminal([*program, "status"], environ, cwd)
        found = sides.alternate(measured, rounds)
    bare = found.pop("bare")
    goals = {**{name: goal for name, _, goal in wanted}, rich: 10.0}
    rows = [["bare `python -c pass`", sides.ms(bare.wall), sides.ms(bare.cpu), "1.0x", "1.0x", ""]]
    for name, cost in found.items():
        clock, cpu = cost.wall / bare.wall, cost.cpu / bare.cpu
        shown = [sides.ms(cost.wall), sides.ms(cost.cpu), f"{clock:.1f}x", f"{cpu:.1f}x"]
        rows.append([name, *shown, sides.against(cpu, goals[name])])
    sides.table(["what", "clock", "CPU", "clock beside bare", "CPU beside bare", "goal"], rows)


if __name__ == "__main__":
    main()
