"""A reader that goes away, as in `dispatcher log --jsonl | head`, is no error of ours, whichever command it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.cli.catalog import BY_NAME
from dispatcher.cli.entry import BROKEN_PIPE
from dispatcher.task import Status
from tests.cli.story import Story

PROGRAM = [sys.executable, "-m", "dispatcher.cli"]
LONG = "word " * 10_000  # more than the buffers of Python and of a pipe take
LINES = {  # what is printed of a home with an ended task 1 and a queued task 2; {tmp}: a folder of the test's own
    "init": ["init --home {tmp}/new"],
    "trust": ["trust"],
    "completion": ["completion bash", "completion zsh"],
    "doctor": ["doctor"],
    "new": ["new {tmp}/new.md"],
    "add": ["add {tmp}/brief.md", "add {tmp}/brief.md --json"],
    "edit": ["edit 2 --help"],
    "run": ["run --dry-run", "run --help"],
    "compare": ["compare --help"],
    "status": ["status", "status --json"],
    "ready": ["ready"],
    "show": ["show 1", "show 1 --json", "show 1 --brief", "show 1 --stdout", "show 1 --prompt"],
    "explain": ["explain 1"],
    "log": ["log", "log --json", "log --jsonl", "log --csv", "log --where seconds>1", "log path", "log metadata"],
    "watch": ["watch --help"],
    "tail": ["tail 1", "tail 1 --raw", "tail 1 -f"],
    "work": ["work --help"],
    "classify": ["classify {logs}/1/1"],
    "review": ["review 1"],
    "approvals": ["approvals"],
    "approve": ["approve --help"],
    "deny": ["deny --help"],
    "cancel": ["cancel 2"],
    "pause": ["pause 2"],
    "resume": ["resume --help"],
    "retry": ["retry --help"],
    "models": ["models", "models --json"],
    "holds": ["holds", "holds --json"],
    "hold": ["hold small"],
    "release": ["release --help"],
    "quota": ["quota"],
    "report": ["report", "report --json", "report --csv", "report --markdown"],
    "export": ["export"],
    "import": ["import --help"],
    "cron": ["cron --help"],
    "prune": ["prune --help"],
    "bug-report": ["bug-report 1 --help"],
}
ALL = [
    *(words for lines in LINES.values() for words in lines),
    "--help",
    "--version",
    "__complete bash 2 show ",
    "__complete bash 1 re",
]


@pytest.fixture
def story(home: Path) -> Iterator[Story]:
    found = Story(home)
    task = found.task("Fix it", brief_text=f"# Fix it\n\n{LONG}\n")
    folder = found.begin(task)
    (folder / "stdout").write_text(
        '{"type":"text","timestamp":1,"sessionID":"ses_1","part":{"type":"text","text":"line by line"}}\n' * 5000
    )
    (folder / "prompt.md").write_text(LONG)
    found.end(task, Status.NEEDS_REVIEW, "complete", final_text=LONG)
    found.task("Another")
    yield found
    found.store.close()


def test_every_command_is_in_the_table() -> None:
    assert {*LINES, "demo"} == set(BY_NAME)  # demo writes nothing before it has run workers for a while


@pytest.mark.parametrize("words", ALL)
def test_a_reader_that_is_gone(story: Story, tmp_path: Path, words: str) -> None:
    (tmp_path / "brief.md").write_text("---\nexpect: report\n---\n# Say it\n\nIn a line.\n")
    line = [part.format(tmp=tmp_path, logs=story.home / "logs") for part in words.split(" ")]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PROGRAM, *line], stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert not any(word in done.stderr for word in ("Traceback", "Exception", "Broken", "internal error", "closed"))
    assert done.returncode in (0, 1, BROKEN_PIPE), done.stderr  # 1: `doctor` has something to say


def test_a_reader_that_goes_away_in_the_middle(story: Story) -> None:
    for words in ("export", "show 1 --stdout", "tail 1", "log --jsonl"):
        with subprocess.Popen([*PROGRAM, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(10)
            process.stdout.close()
            said = process.stderr.read()
        notes = [line for line in said.splitlines() if not line.startswith(b"--- attempt")]
        assert (notes, process.returncode in (0, BROKEN_PIPE)) == ([], True), words
