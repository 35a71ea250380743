"""`classify`: what is printed about saved runs. That every capture is judged right is shown beside the harnesses."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatcher.supervisor import attempt_files, spec
from dispatcher.task import EndReason, ExitRecord, HoldRequest, HoldScope, OutcomeClass

from ..harness.captures import EXPECTED, FOLDER
from .conftest import Run

COMPLETED = FOLDER / "opencode" / "ok.stdout"
LIMITED = FOLDER / "claude" / "rl-oa-429rej.stdout"


def rows(run: Run, *files: Path | str, code: int = 0) -> list[dict[str, Any]]:
    said = run("classify", *map(str, files), "--json")
    assert said.code == code, said.err
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


def one(run: Run, file: Path | str) -> dict[str, Any]:
    [row] = rows(run, file)
    return row


def test_every_capture_through_the_command(run: Run) -> None:
    """A capture of one stream only is enough for its class, except where two streams are needed to tell."""
    files = [path for path in sorted(FOLDER.glob("*/*")) if not path.with_suffix(".stdout").exists()]
    files += sorted(FOLDER.glob("*/*.stdout"))
    for row in rows(run, *files):
        path = Path(row["file"])
        name = f"{path.parent.name}/{path.stem}"
        both = {p.suffix for p in path.parent.glob(f"{path.stem}.*")}
        if len(both) == 1 and path.read_bytes().strip():
            assert row["class"] == EXPECTED[name], name
        assert row["harness"] == path.parent.name


def test_the_line_that_proves_it(run: Run) -> None:
    row = one(run, COMPLETED)
    lines = COMPLETED.read_text().splitlines()
    assert row["line"] == lines[row["line_number"] - 1]
    assert '"reason":"stop"' in row["line"]
    assert row["verdicts"]["committed work"] == {"action": "review", "next": "review"}


def test_the_reset_the_scope_and_the_action(run: Run) -> None:
    row = one(run, LIMITED)
    assert (row["class"], row["scope"], row["window"]) == ("quota_exhausted", "credential", "five_hour")
    assert (row["reset"], row["reset_stated"]) == (1795968421.0, True)
    assert row["verdicts"]["nothing in git"] == {"action": "redispatch", "next": "the next candidate, first prompt"}
    assert row["verdicts"]["uncommitted work"]["action"] == "continue"
    person = run("classify", str(LIMITED))
    assert "quota_exhausted" in person.out
    assert "credential until 20" in person.out
    assert "(stated)" in person.out


def test_waits_count_from_the_time_that_the_run_states(run: Run) -> None:
    """Without a reset the guess is a minute after the run, not a minute from whenever somebody asks."""
    row = one(run, FOLDER / "opencode" / "429.stdout")
    assert row["reset"] < 1795957000 < time.time() + 10 * 365 * 86400
    assert row["reset_stated"] is False


def test_two_runs_in_one_file_and_another_name(run: Run, tmp_path: Path) -> None:
    both = tmp_path / "notes about 429.txt"
    both.write_bytes(COMPLETED.read_bytes() + LIMITED.read_bytes())
    row = one(run, both)
    assert (row["harness"], row["class"]) == ("claude", "quota_exhausted")
    assert row["line_number"] > len(COMPLETED.read_bytes().splitlines())
    both.write_bytes(LIMITED.read_bytes() + COMPLETED.read_bytes())
    assert (one(run, both)["harness"], one(run, both)["class"]) == ("opencode", "completed")


def test_many_files_are_a_table(run: Run) -> None:
    said = run("classify", str(COMPLETED), str(LIMITED))
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["file", "cli", "class", "hold", "then"]
    assert len(said.out.splitlines()) == 3


# --- attempt folders ----------------------------------------------------------------------------------------------


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """A run that was ended live for its limit: its own lines say nothing of it, the exit record does."""
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / "stdout").write_bytes(b"\n".join(COMPLETED.read_bytes().splitlines()[:4]) + b"\n")
    (folder / "stderr").touch()
    (folder / "prompt.md").touch()
    spec.write(
        spec.AttemptSpec("m-1", ("true",), str(tmp_path), str(folder / "prompt.md"), str(folder), harness="opencode")
    )
    return folder


RECORD = ExitRecord(
    "m-1",
    1795955944.0,
    1795955950.0,
    EndReason.QUOTA,
    "Free usage exceeded",
    kind=OutcomeClass.QUOTA_EXHAUSTED,
    proof="Free usage exceeded",
    hold=HoldRequest(HoldScope.MODEL, 1795997774.233, "the free allowance is used up", "day", True),
)


def test_an_attempt_folder_with_its_exit_record(run: Run, attempt: Path) -> None:
    spec.write_exit(attempt, RECORD)
    row = one(run, attempt)
    assert (row["class"], row["reset"], row["scope"]) == ("quota_exhausted", 1795997774.233, "model")
    assert (row["line"], row["proof"], row["note"]) == (None, "Free usage exceeded", "")
    spec.write_exit(attempt, replace(RECORD, reason=EndReason.EXITED, kind=None, hold=None, proof="", exit_code=1))
    assert one(run, attempt)["class"] == "unknown"


def test_an_attempt_folder_without_an_exit_record(run: Run, attempt: Path) -> None:
    assert (one(run, attempt)["class"], one(run, attempt)["note"]) == ("lost", "there is no exit record")
    lock = attempt_files.take_lock(str(attempt / attempt_files.LOCK))
    assert lock is not None
    assert one(run, attempt)["note"] == "it is still running"
    (attempt / "stdout").write_bytes(COMPLETED.read_bytes())
    row = one(run, attempt)
    assert (row["class"], row["line_file"], row["line_number"]) == ("completed", "stdout", 10)
    (attempt / "attempt.json").unlink()  # somebody saved the output alone
    assert one(run, attempt)["class"] == "completed"


# --- wrong files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("blank.jsonl", b"\n\n  \n", "is empty"),
        ("words.txt", b"429 Too many requests\n", "no output of opencode or claude"),
        ("other.json", b'{"type": "x", "name": "y"}\n', "no output of opencode or claude"),
        ("binary", bytes(range(256)) * 100, "no output of opencode or claude"),
        ("README.md", b"opencode and Claude\n" + b"a line of text\n" * 40, "no output of opencode or claude"),
    ],
)
def test_a_wrong_file_is_said(run: Run, tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    said = run("classify", str(tmp_path / name))
    assert (said.code, said.out) == (2, "")
    assert says in said.err
    assert "hint: " in said.err


def test_what_is_not_there_does_not_hide_the_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "12" / "1").mkdir(parents=True)
    (tmp_path / "12" / "1" / "stdout").touch()
    said = run("classify", str(COMPLETED), str(tmp_path / "no"), str(tmp_path / "12"), str(tmp_path), "--json")
    assert said.code == 2
    assert [row["class"] for row in json.loads(said.out)] == ["completed"]
    assert "No such file" in said.err
    assert f"name one of its attempts, such as {tmp_path / '12' / '1'}" in said.err
    assert "holds neither stdout nor stderr" in said.err
