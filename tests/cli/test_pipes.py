"""Output that nobody takes, whichever command it was: a reader that goes away, as in `dispatcher log --jsonl | head`,
is no error of ours; a disk that is full is told in one line; messages that cannot be written change nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.cli.catalog import BY_NAME
from dispatcher.cli.entry import BROKEN_PIPE, CANNOT_WRITE
from dispatcher.task import Status
from tests.cli.conftest import Run
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


FULL = Path("/dev/full")  # only ever opened to be written to
TOLD = """\
error: the output cannot be written: {}
hint: send it elsewhere, or free some space; what the command changed is kept
"""
full_disk = pytest.mark.skipif(not FULL.is_char_device(), reason="there is no /dev/full")
SHORT = [
    words
    for words in ALL
    if "--help" not in words and words.split()[0] not in ("doctor", "new", "trust", "hold", "pause", "cancel", "init")
]


def command(story: Story, tmp_path: Path, words: str) -> list[str]:
    (tmp_path / "brief.md").write_text("---\nexpect: report\n---\n# Say it\n\nIn a line.\n")
    return [*PROGRAM, *(part.format(tmp=tmp_path, logs=story.home / "logs") for part in words.split(" "))]


@full_disk
@pytest.mark.parametrize("words", [*SHORT, "--help", "models --help"])
def test_output_to_a_full_disk_is_one_line(story: Story, tmp_path: Path, words: str) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            command(story, tmp_path, words),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr.endswith(TOLD.format("No space left on device")), done.stderr
    assert done.stderr.count("\n") == 2 + done.stderr.count("--- attempt")
    assert done.returncode == CANNOT_WRITE


@full_disk
def test_what_was_done_is_kept_when_its_output_is_lost(story: Story, run: Run, tmp_path: Path) -> None:
    with FULL.open("wb") as full:
        subprocess.run(command(story, tmp_path, "add {tmp}/brief.md"), stdout=full, stderr=subprocess.DEVNULL)
    assert "Say it" in run("status", "--all").out


@full_disk
@pytest.mark.parametrize(("words", "code"), [("status", 0), ("hold small", 0), ("nope", 2), ("show 7", 2), ("run", 0)])
def test_messages_to_a_full_disk_change_no_exit_code(story: Story, tmp_path: Path, words: str, code: int) -> None:
    subprocess.run(command(story, tmp_path, "pause 2"), check=True, capture_output=True)
    with FULL.open("wb") as full:
        done = subprocess.run(command(story, tmp_path, words), stdout=subprocess.PIPE, stderr=full, check=False)
    assert done.returncode == code


def test_output_that_was_opened_for_reading(story: Story, tmp_path: Path) -> None:
    with Path(os.devnull).open("rb") as wrong:
        done = subprocess.run(
            command(story, tmp_path, "status"), stdout=wrong, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (CANNOT_WRITE, TOLD.format("Bad file descriptor"))


def test_a_terminal_that_is_gone(story: Story, tmp_path: Path) -> None:
    """EIO, as after the end of an ssh session."""
    ours, theirs = os.openpty()
    os.close(ours)
    try:
        done = subprocess.run(
            command(story, tmp_path, "status --json"), stdout=theirs, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (CANNOT_WRITE, TOLD.format("Input/output error"))


def test_a_slow_reader_of_a_stream_that_does_not_block(story: Story, tmp_path: Path) -> None:
    """As other programs leave the terminal that they share with us."""
    whole = subprocess.run(command(story, tmp_path, "show 1 --stdout"), capture_output=True, check=True).stdout
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen(command(story, tmp_path, "show 1 --stdout"), stdout=writing, stderr=subprocess.PIPE) as ran:
        os.close(writing)
        with os.fdopen(reading, "rb") as reader:
            assert reader.read() == whole
        assert ran.stderr is not None
        assert ran.stderr.read() == b""
    assert (ran.returncode, len(whole) > 65536) == (0, True)
