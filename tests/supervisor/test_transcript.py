"""An output file read at its end: whole lines, whatever the chunks; what a hole has cut is left out."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.supervisor import transcript


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=20) | st.just(b"\n"), max_size=12), st.integers(1, 9), st.integers(1, 30))
def test_lines_do_not_depend_on_the_chunks(pieces: list[bytes], chunk: int, longest: int) -> None:
    text = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcript, "CHUNK", chunk)
        path = Path(folder, "out")
        path.write_bytes(text)
        wanted = text.removesuffix(b"\n").split(b"\n") if text else []
        assert list(transcript.lines(path, longest)) == [line[:longest] for line in wanted]
        assert all(block.endswith(b"\n") for block in transcript.blocks(path))


def test_lines_that_a_hole_has_cut_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "_pieces", lambda fd: [(0, 10), (20, 36)])
    path = tmp_path / "out"
    path.write_bytes(b"first\ncut " + b"\0" * 10 + b" away\nlast\nopen.")
    assert list(transcript.lines(path)) == [b"first", b"last", b"open."]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert list(transcript.lines(tmp_path / "out")) == []
