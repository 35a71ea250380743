"""The records of an attempt: round trips, half-written files, other versions, the lock."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from dispatcher.errors import InternalError
from dispatcher.supervisor import attempt_files, spec, supervise
from dispatcher.task import EndReason, ExitRecord, HoldRequest, HoldScope, OutcomeClass
from tests.supervisor.support import Attempt

RECORD = ExitRecord(
    marker="m",
    started_at=1.5,
    ended_at=2.5,
    reason=EndReason.QUOTA,
    detail='with "quotes", \x1b[31m and caf\udce9',
    signal=15,
    ended_processes=("12 node", "13 (sd pam)"),
    kind=OutcomeClass.QUOTA_EXHAUSTED,
    hold=HoldRequest(HoldScope.MODEL, 99.0, "free limit", "day"),
    notes=("one",),
)


@pytest.fixture
def folder(attempt: Attempt) -> Path:
    attempt.marker = "m"
    attempt.write(("true", "ünï"), versions={"opencode": "1.18.33"}, keep_daemons=("gradle",))
    return attempt.folder


def test_the_specification_comes_back(folder: Path) -> None:
    again = spec.read(folder)
    assert again.argv == ("true", "ünï")
    spec.write(again)
    assert spec.read(folder) == again


def test_a_later_version_may_have_written_it(folder: Path) -> None:
    values = json.loads((folder / "attempt.json").read_text())
    (folder / "attempt.json").write_text(json.dumps({**values, "invented_later": [1]}))
    assert spec.read(folder).argv == ("true", "ünï")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"marker": "m"}', "null"])
def test_a_damaged_specification_is_one_clear_error(folder: Path, text: str) -> None:
    (folder / "attempt.json").write_text(text)
    with pytest.raises(InternalError, match=r"attempt\.json"):
        spec.read(folder)


def test_the_exit_record_comes_back(folder: Path) -> None:
    spec.write_exit(folder, RECORD)
    assert spec.read_exit(folder) == RECORD
    assert not list(folder.glob("*.part"))


def test_no_exit_record_at_any_length_but_the_whole(folder: Path) -> None:
    """Written by rename, so this can only be a damaged disk; it must read as `none`, never as another ending."""
    spec.write_exit(folder, RECORD)
    whole = (folder / "exit.json").read_bytes()
    for length in range(0, len(whole), 7):
        (folder / "exit.json").write_bytes(whole[:length])
        assert spec.read_exit(folder) is None
    (folder / "exit.json").write_bytes(b"\0" * len(whole))
    assert spec.read_exit(folder) is None
    (folder / "exit.json").unlink()
    assert spec.read_exit(folder) is None


def test_the_record_of_another_attempt_is_none(folder: Path) -> None:
    spec.write_exit(folder, replace(RECORD, marker="other"))
    assert spec.read_exit(folder) is None


def test_words_of_a_later_version_are_read_as_the_nearest(folder: Path) -> None:
    spec.write_exit(folder, RECORD)
    values = json.loads((folder / "exit.json").read_text())
    (folder / "exit.json").write_text(json.dumps({**values, "reason": "eclipse", "kind": "eclipse", "moon": 1}))
    record = spec.read_exit(folder)
    assert record is not None
    assert (record.reason, record.kind) == (EndReason.SUPERVISOR_ERROR, OutcomeClass.UNKNOWN)


def test_how_older_supervisors_wrote_a_stop(folder: Path) -> None:
    """A fault of the supervisor itself had no class."""
    for kind, read in (
        (OutcomeClass.LOST, (EndReason.STOPPED, OutcomeClass.STOPPED)),
        (None, (EndReason.SUPERVISOR_ERROR, None)),
    ):
        spec.write_exit(folder, replace(RECORD, reason=EndReason.SUPERVISOR_ERROR, kind=kind))
        record = spec.read_exit(folder)
        assert record is not None
        assert (record.reason, record.kind) == read


def test_the_supervisor_writes_every_field_and_known_words(attempt: Attempt) -> None:
    """It cannot import the vocabulary, so this keeps the two together."""
    attempt.run("exit 0")
    assert set(json.loads(attempt.text("exit.json"))) == {field.name for field in fields(ExitRecord)}
    for reason, (kind, _) in supervise.CLOCK_WORDS.items():
        EndReason(reason)
        assert kind is None or OutcomeClass(kind)


def test_the_supervisor_takes_a_specification_of_an_older_dispatcher(attempt: Attempt) -> None:
    """The program is upgraded while a dispatcher runs: it writes the first fields, a newer supervisor reads them."""
    attempt.write("exit 3", harness="opencode", model="fake/m1")
    values = json.loads(attempt.text("attempt.json"))
    first = ("marker", "argv", "cwd", "stdin", "folder", "harness", "model", "billing", "start", "stall", "hard_cap")
    more = ("grace", "switch_after", "others_free", "log_bytes", "keep_daemons", "detection", "unset")
    (attempt.folder / "attempt.json").write_text(json.dumps({name: values[name] for name in first + more}))
    attempt.launch()
    record = attempt.wait()
    assert (record.reason, record.exit_code, record.survivors) == (EndReason.EXITED, 3, 0)


def test_a_lock_is_seen_by_others_and_taken_once(tmp_path: Path) -> None:
    path = str(tmp_path / "attempt.lock")
    assert not spec.alive(tmp_path)
    lock = attempt_files.take_lock(path)
    assert lock is not None
    assert spec.alive(tmp_path)
    assert attempt_files.take_lock(path, patience=0.02) is None
    os.close(lock)
    assert not spec.alive(tmp_path)


def _full_for(times: int) -> Callable[[int], None]:
    left = [times]

    def fsync(_fd: int) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")

    return fsync


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(os, "fsync", _full_for(3))
    path = tmp_path / "exit.json"
    assert attempt_files.write_when_possible(str(path), "{}", 600)
    assert path.read_text() == "{}"
    assert pauses == [0.2, 0.4, 0.8]


def test_another_error_is_not_waited_for(tmp_path: Path) -> None:
    assert not attempt_files.write_when_possible(str(tmp_path / "no" / "exit.json"), "{}", 600)


def test_space_for_the_record_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    attempt_files.reserve(str(path))
    assert Path(f"{path}.part").stat().st_blocks * 512 >= attempt_files.RESERVE
    attempt_files.write_durably(str(path), "{}")
    assert path.stat().st_blocks * 512 < attempt_files.RESERVE


def test_a_record_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hard reboot left files of zeros: written, synced, renamed, and the name itself synced."""
    done: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        done.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))} {os.fstat(fd).st_size > 0}")
        real_fsync(fd)

    def rename(old: str, new: str) -> None:
        done.append(f"rename {os.path.basename(old)} {os.path.basename(new)}")
        real_rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    folder = tmp_path / "attempt"
    folder.mkdir()
    attempt_files.write_durably(str(folder / "exit.json"), "{}")
    assert done == ["sync exit.json.part True", "rename exit.json.part exit.json", "sync attempt True"]
