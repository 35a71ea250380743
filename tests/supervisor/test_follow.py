"""Files that grow: whole lines, whatever the chunks; cut lines; memory that does not grow with the file."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.supervisor import follow
from dispatcher.supervisor.follow import Follower

ALL = 1 << 40
MIB = 1024 * 1024


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.binary(max_size=30) | st.sampled_from([b"\n", b"\n\n", "🦊".encode()[:2], b"\x00\xff\x94"]), max_size=12
    )
)
def test_lines_do_not_depend_on_how_they_were_written(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "out")
        follower = Follower(str(path))
        got: list[bytes] = []
        with path.open("ab", buffering=0) as writer:
            for piece in pieces:
                writer.write(piece)
                got += follower.lines(ALL)
        rest = follower.rest()
        follower.close()
        whole = b"".join(pieces).split(b"\n")
        assert [*got, rest] == whole


def test_a_long_line_arrives_cut_and_the_next_one_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LINE", 1000)
    path = tmp_path / "out"
    path.write_bytes(b"a" * 300_000 + b"\nnext\n" + b"b" * 300_000)
    follower = Follower(str(path))
    assert list(follower.lines(ALL)) == [b"a" * 1000, b"next"]
    assert follower.rest() == b"b" * 1000
    follower.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=40) | st.just(b"\n"), max_size=12), st.integers(1, 9))
def test_blocks_are_whole_lines_whatever_the_chunks(pieces: list[bytes], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "CHUNK", chunk)
        path = Path(folder, "out")
        follower, got = Follower(str(path)), b""
        with path.open("ab", buffering=0) as writer:
            for piece in pieces:
                writer.write(piece)
                for block, end in follower.blocks(ALL):
                    assert block[end - 1 : end] == b"\n"
                    got += block[:end]
                assert follower.seen == writer.tell()
        assert got + follower.rest() == b"".join(pieces)
        follower.close()


def test_what_was_seen_of_a_line_survives_a_cut_of_the_file(tmp_path: Path) -> None:
    """Where a file system knows no holes, the file is cut to its head and grows again from there."""
    path = tmp_path / "out"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"first\nsecond\nthi")
        follower = Follower(str(path))
        assert list(follower.lines(ALL)) == [b"first", b"second"]
        os.truncate(path, 6)
        follower.rewind()
        writer.write(b"rd\nfourth\n")
        assert list(follower.lines(ALL)) == [b"third", b"fourth"]
        follower.close()


def test_the_budget_bounds_one_look(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"line\n" * 400_000)
    follower = Follower(str(path))
    first = list(follower.lines(follow.CHUNK))
    assert 0 < len(first) < 400_000
    assert len(first) + len(list(follower.lines(ALL))) == 400_000
    follower.close()


def _fifty_mib_line(path: Path) -> int:
    path.write_bytes(b'{"type":"text","text":"' + b"x" * (50 * MIB) + b'"}\n{"type":"done"}\n')
    return 2


def _two_hundred_mib(path: Path) -> int:
    block = (b'{"type":"text","text":"' + b"y" * 174 + b'"}\n') * (5 * 1024)
    with path.open("wb") as file:
        for _ in range(205):
            file.write(block)
    return 205 * 5 * 1024


@pytest.mark.parametrize("write", [_fifty_mib_line, _two_hundred_mib])
def test_memory_stays_small(tmp_path: Path, write: Callable[[Path], int]) -> None:
    path = tmp_path / "out"
    lines = write(path)
    tracemalloc.start()
    try:
        follower = Follower(str(path))
        assert sum(1 for _ in follower.lines(ALL)) == lines
        follower.close()
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
