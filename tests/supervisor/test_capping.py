"""Logs are capped from outside while they are written; what is read afterwards is whole lines of head and tail."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.supervisor import kernel, transcript
from dispatcher.supervisor.capping import Cap

MIB = 1024 * 1024
LINE = "line %07d %s\n"


def _write(path: Path, cap: Cap, count: int) -> tuple[int, int]:
    """Append numbered lines, look at the file now and then; (size of all that was written, the most it took)."""
    most = 0
    size = 0
    with path.open("ab", buffering=0) as writer:
        for start in range(0, count, 1000):
            block = "".join(LINE % (number, "z" * 84) for number in range(start, start + 1000)).encode()
            writer.write(block)
            size += len(block)
            cap.check(path.stat().st_size)
            most = max(most, path.stat().st_blocks * 512)
    return size, most


def test_the_middle_is_punched_out(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    cap = Cap(str(path), 2 * MIB)
    size, most = _write(path, cap, 200_000)
    assert path.stat().st_size == size  # the writer's offsets are untouched
    assert most <= 2 * MIB + 200_000
    assert cap.removed == transcript.holes(path) > size - 3 * MIB
    lines = list(transcript.lines(path))
    assert lines[0].startswith(b"line 0000000 ")
    assert lines[-1].startswith(b"line 0199999 ")
    assert all(line.startswith(b"line ") and len(line) == 97 for line in lines[:-1] if b"\0" not in line)
    assert not any(b"\0" in line for line in lines)
    assert len(lines) > 8000


def test_a_file_system_without_holes_keeps_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "punch_hole", lambda *_: False)
    path = tmp_path / "stdout"
    cap = Cap(str(path), 2 * MIB)
    size, most = _write(path, cap, 200_000)
    assert most <= 2 * MIB + 200_000
    assert cap.cut
    assert path.stat().st_size + cap.removed == size
    assert next(transcript.lines(path)).startswith(b"line 0000000 ")
    assert list(transcript.lines(path))[-1].startswith(b"line 0199999 ")


def test_a_small_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * MIB)
    cap = Cap(str(path), 2 * MIB)
    assert not cap.check(MIB)
    assert (cap.removed, path.read_bytes()) == (0, b"x" * MIB)


def test_zero_means_no_cap(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * MIB)
    assert not Cap(str(path), 0).check(MIB)
    assert transcript.holes(path) == 0


def test_reading_cuts_long_lines_and_needs_no_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"a" * 700_000 + b"\n\nshort\nlast")
    assert list(transcript.lines(path, longest=100)) == [b"a" * 100, b"", b"short", b"last"]
    assert list(transcript.lines(tmp_path / "none")) == []
    assert transcript.holes(tmp_path / "none") == 0


def test_a_file_that_is_one_hole(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    with path.open("wb") as file:
        file.truncate(4 * MIB)
    assert list(transcript.lines(path)) == []
    assert transcript.holes(path) == 4 * MIB
