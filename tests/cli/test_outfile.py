"""The files that a person names for a command to write: they appear whole, and nothing but a report is replaced."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.cli import outfile
from dispatcher.errors import BadInput
from dispatcher.task import Status
from tests.cli.conftest import Run
from tests.cli.story import Story

PROGRAM = [sys.executable, "-m", "dispatcher.cli"]
WRITERS = [["export"], ["report", "--html"], ["log", "backup"], ["bug-report", "1", "-o"]]
KEEPERS = [words for words in WRITERS if words[0] != "report"]
each_writer = pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])


@pytest.fixture
def story(home: Path) -> Iterator[Story]:
    found = Story(home)
    task = found.task("Fix it")
    found.begin(task)
    found.end(task, Status.NEEDS_REVIEW, "complete")
    yield found
    found.store.close()


def looks_right(words: list[str], data: bytes) -> bool:
    if words[0] == "bug-report":
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as packed:
            return "dispatcher-report-1/task.json" in packed.getnames()
    return data.startswith({"export": b"{", "report": b"<!DOCTYPE html>", "log": b"SQLite format 3\0"}[words[0]])


@each_writer
def test_a_new_file_is_whole_and_alone(story: Story, run: Run, tmp_path: Path, words: list[str]) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "x.part").write_text("mine")
    said = run(*words, str(folder / "x"))
    assert said.code == 0, said.err
    assert looks_right(words, (folder / "x").read_bytes())
    assert {path.name: path.stat().st_nlink for path in folder.iterdir()} == {"x": 1, "x.part": 1}
    assert (folder / "x.part").read_text() == "mine"


@pytest.mark.parametrize("words", KEEPERS, ids=lambda words: words[0])
def test_an_existing_file_stays(story: Story, run: Run, tmp_path: Path, words: list[str]) -> None:
    target, link = tmp_path / "x", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    for name in (target, link):
        said = run(*words, str(name))
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith(f"error: {name} exists already\nhint: ")
    assert link.is_symlink()
    assert target.read_text() == "mine"


@pytest.mark.parametrize("behind", ["", "link", "far link"])
def test_a_report_takes_the_place_of_yesterdays(story: Story, run: Run, tmp_path: Path, behind: str) -> None:
    (tmp_path / "far").mkdir()
    page = tmp_path / "far" / "x"
    page.write_text("yesterday")
    page.chmod(0o604)
    (tmp_path / "link").symlink_to("far/x")
    (tmp_path / "far link").symlink_to("link")
    said = run("report", "--html", str(tmp_path / behind if behind else page))
    assert said.code == 0, said.err
    assert looks_right(["report"], page.read_bytes())
    assert stat.S_IMODE(page.stat().st_mode) == 0o604
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_symlink()) == ["far link", "link"]
    assert [path.name for path in page.parent.iterdir()] == ["x"]


def test_a_report_that_is_not_finished_leaves_yesterdays(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("yesterday")

    def stops() -> None:
        with outfile.opened(tmp_path / "x", replaces=True) as stream:
            stream.write(b"half")
            stream.flush()
            assert (tmp_path / "x").read_text() == "yesterday"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stops()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "yesterday")]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/nowhere", path)])
def test_a_report_never_replaces_what_became_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    page = tmp_path / "x"
    page.write_text("yesterday")

    def changes() -> None:
        with outfile.opened(page, replaces=True) as stream:
            stream.write(b"today")
            page.unlink()
            make(page)

    with pytest.raises(BadInput, match="exists already"):
        changes()
    assert not page.is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@each_writer
def test_behind_a_link_the_file_that_it_names_is_made(story: Story, run: Run, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "far").mkdir()
    link = tmp_path / "link"
    link.symlink_to("far/x")
    assert run(*words, str(link)).code == 0
    assert link.is_symlink()
    assert looks_right(words, (tmp_path / "far" / "x").read_bytes())


@each_writer
def test_a_pipe_is_written_through_and_stays_a_pipe(story: Story, run: Run, tmp_path: Path, words: list[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (tmp_path / "read").open("wb") as read, subprocess.Popen(["cat", str(pipe)], stdout=read) as reader:
        said = run(*words, str(pipe))
        if said.code:
            reader.kill()
    assert said.code == 0, said.err
    assert looks_right(words, (tmp_path / "read").read_bytes())
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "pipe"))] == ["pipe"]


@each_writer
def test_a_dash_is_stdout(story: Story, words: list[str]) -> None:
    done = subprocess.run([*PROGRAM, *words, "-"], capture_output=True, check=True)
    assert looks_right(words, done.stdout)
    assert not Path("-").exists()


@each_writer
@pytest.mark.parametrize(
    ("name", "why"),
    [("no/such/x", "there is no folder {tmp}/no/such"), ("", "it is a folder"), ("file/x", "Not a dir")],
)
def test_what_cannot_be_written_is_said(
    story: Story, run: Run, tmp_path: Path, words: list[str], name: str, why: str
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "file").touch()
    said = run(*words, str(folder / name))
    assert said.code == 2
    assert f"cannot be written: {why.format(tmp=folder)}" in said.err
    assert "hint: " in said.err
    assert [path.name for path in folder.rglob("*")] == ["file"]


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path: Path) -> None:
    def stops() -> None:
        with outfile.opened(tmp_path / "x") as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stops()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_into_being_meanwhile_stays(tmp_path: Path) -> None:
    def is_late() -> None:
        with outfile.opened(tmp_path / "x") as stream:
            stream.write(b"ours")
            (tmp_path / "x").write_bytes(b"theirs")

    with pytest.raises(BadInput, match="exists already"):
        is_late()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"theirs")]
