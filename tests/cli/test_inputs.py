"""Input that would be read for ever, means something else than was typed, or means nothing: refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatcher.cli import infile
from tests.cli.conftest import MODELS, Run

PROGRAM = [sys.executable, "-m", "dispatcher.cli"]
TEXT = "---\nexpect: report\n---\n# Say it\n\nIn a line.\n"
Write = Callable[..., Path]


@pytest.mark.parametrize(
    "words",
    [
        ["add", ""],
        ["run", "--add", ""],
        ["cron", "install", "--add="],
        ["show", ""],
        ["status", "--home", ""],
        ["add", "--repo=", "x.md"],
        ["export", ""],
        [""],
    ],
)
def test_an_empty_argument_is_a_mistake(home: Path, run: Run, words: list[str]) -> None:
    Path("here.md").write_text(TEXT)  # in the current folder, which an empty path would mean
    said = run(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: an argument of {words[0] or 'dispatcher'} is empty\nhint: ")


def test_what_a_person_says_may_be_empty(home: Path, run: Run) -> None:
    assert run("hold", "small", "--reason", "").code == 0
    assert run("hold", "large", "--reason=").code == 0


def test_a_brief_is_a_file(home: Path, run: Run, tmp_path: Path, brief: Write) -> None:
    folder = tmp_path / "briefs"
    folder.mkdir()
    os.mkfifo(folder / "pipe.md")
    large = brief(TEXT + "x" * 4 * 1024 * 1024, name="large.md")
    (tmp_path / "gone.md").symlink_to("nowhere.md")
    for name, why in (
        (folder / "pipe.md", "it is not a regular file"),
        (folder, "it is not a regular file"),
        (Path("/dev/zero"), "it is not a regular file"),
        (large, "it is larger than 4 MiB"),
        (tmp_path / "gone.md", "No such file or directory"),
    ):
        said = run("add", str(name))
        assert (said.code, said.out) == (2, "")
        assert f"cannot be read: {why}\nhint: " in said.err
    assert run("status").out.endswith("nothing queued yet (dispatcher add BRIEF)\n")


def test_stdin_is_not_read_for_ever(home: Path) -> None:
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run([*PROGRAM, "add", "-"], stdin=endless, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: stdin: is larger than 4 MiB\n")


def test_a_transcript_on_stdin_is_not_read_for_ever(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infile, "LONGEST", 1024**2)
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        said = run("classify", "-")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: stdin is larger than 1 MiB\nhint: ")


def test_a_device_is_no_export(home: Path, run: Run) -> None:
    said = run("import", "/dev/zero")
    assert (said.code, said.err.splitlines()[0]) == (2, "error: /dev/zero is a device")


@pytest.mark.parametrize(
    ("words", "sent", "said"),
    [
        ([], "0", "error: -:1: this is no JSON"),
        ([], "0\n", "error: -:1: this is no JSON"),
        ([], " ", "error: -:1: this is no JSON"),
        (["--from", "joblog"], "0", "error: -:1: this is no joblog"),
    ],
)
def test_an_import_of_something_endless_ends(home: Path, words: list[str], sent: str, said: str) -> None:
    """What comes out of the pipe is no export; the writer would go on for ever."""
    writer = [sys.executable, "-c", f"import sys\nwhile True: sys.stdout.write({sent!r} * 65536)"]
    with subprocess.Popen(writer, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as endless:
        done = subprocess.run(
            [*PROGRAM, "import", *words, "-"], stdin=endless.stdout, capture_output=True, text=True, check=False
        )
        assert endless.stdout is not None
        endless.stdout.close()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert "\nhint: " in done.stderr


def test_one_line_of_an_import_is_not_read_for_ever(
    home: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infile, "LONGEST", 1000)
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"dispatcher_export": 1, "schema": 1}) + "\n" + "0" * 5000)
    said = run("import", str(file))
    assert (said.code, said.out) == (2, "")
    assert said.err == f"error: {file}:2: this line is longer than 0 MiB\nhint: name a file that export wrote\n"


def test_of_a_file_that_grows_only_what_was_there_is_read(tmp_path: Path) -> None:
    file = tmp_path / "growing"
    file.write_bytes(b"one\r\ntwo\nthree \xc3")
    found = []
    for line in infile.lines(file, "why"):
        found.append(line)
        with file.open("ab") as more:
            more.write(b"and more\n")
    assert found == ["one", "two", "three \udcc3"]


@pytest.mark.parametrize(
    ("file", "said"), [("/dev/null", "/dev/null is a device"), (".", ". cannot be read"), ("empty", "empty is empty")]
)
def test_what_holds_no_log_is_no_export(home: Path, run: Run, file: str, said: str) -> None:
    Path("empty").touch()
    found = run("import", file)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error: {said}")
    assert "\nhint: " in found.err


def test_a_pipe_in_the_store_of_claude_is_passed_over(home: Path, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "one"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "session.jsonl")
    assert "0 runs of claude added" in run("import", "--from", "claude", str(folder.parent)).err
    said = run("import", "--from", "claude", str(folder / "session.jsonl"))
    assert (said.code, "there is no store of claude" in said.err) == (2, True)


@pytest.mark.parametrize("words", [["status"], ["models"], ["watch", "--once"], ["run"]])
def test_a_configuration_is_a_file(home: Path, run: Run, words: list[str]) -> None:
    (home / "models.yaml").unlink()
    os.mkfifo(home / "models.yaml")
    said = run(*words)
    assert (said.code, said.out) == (2, "")
    assert "is not a regular file" in said.err


@pytest.mark.parametrize("words", [["status"], ["watch", "--once"], ["log"], ["run"], ["models"], ["trust"]])
def test_a_home_that_was_named_must_be_there(
    home: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    missing = tmp_path / "hoem"
    monkeypatch.setenv("DISPATCHER_HOME", str(missing))
    for named, more in (("DISPATCHER_HOME", []), ("--home", ["--home", str(missing)])):
        said = run(*words, *more)
        assert (said.code, said.out) == (2, "")
        assert said.err.splitlines()[0] == f"error: {named} names {missing}, which does not exist"
    assert not missing.exists()


def test_the_users_own_home_need_not_be_there(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPATCHER_HOME")
    assert run("status").code == 0
    monkeypatch.setenv("DISPATCHER_HOME", "")
    assert run("status").code == 0


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*a){25}b"])
def test_an_expression_that_would_take_for_ever_is_ended(home: Path, run: Run, brief: Write, pattern: str) -> None:
    (home / "models.yaml").write_text(MODELS.replace("title: typo", f"body: '{pattern}'"))
    line = MODELS.split("\n").index("difficulty:") + 2
    said = run("add", str(brief(TEXT + "a" * 60 + "\n")))
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines()[0] == (
        f"error: models.yaml: the rule on line {line} of `difficulty` has an expression that takes too long"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("log --limit 99999999999999999999", "is too large"),
        ("log --task 99999999999999999999", "is too large"),
        ("show 99999999999999999999", "is too large"),
        ("retry 1 abc", "'abc' is not a whole number"),
        ("log --json --csv", "one form only"),
        ("log --jsonl --csv", "one form only"),
        ("holds --json --csv", "one form only"),
        ("report --markdown --json", "one form only"),
        ("report --html {home}/x.html --csv", "one form only"),
        ("log path extra", "log path takes no 'extra'"),
        ("log metadata extra", "log metadata takes no 'extra'"),
    ],
)
def test_nothing_that_was_typed_is_passed_over(home: Path, run: Run, brief: Write, line: str, said: str) -> None:
    run("add", str(brief(TEXT)))
    found = run(*line.format(home=home).split(" "))
    assert (found.code, found.out) == (2, "")
    assert said in found.err.splitlines()[0]


@pytest.mark.parametrize("where", ["1) or (1", "1 order by title", "1; select 1", "1 /*", "seconds > ?", "1 limit 5"])
def test_a_condition_is_one_expression(home: Path, run: Run, brief: Write, where: str) -> None:
    run("add", str(brief(TEXT)))
    said = run("log", "--where", where)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: --where cannot be used: ")
    assert run("log", "--where", "title = '1) or (1' -- ) ").code == 0


def test_a_brief_names_candidates_that_there_are(home: Path, run: Run, brief: Write) -> None:
    said = run("add", str(file := brief(TEXT.replace("---\n#", "candidates: [smal]\n---\n#"))))
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines()[0] == f"error: {file}: `candidates`: models.yaml has no 'smal'"
    assert "small" in said.err.splitlines()[1]


def test_a_hold_ends_within_ten_years(home: Path, run: Run) -> None:
    assert run("hold", "small", "--for", "99999999999d").err.startswith("error: '99999999999d' is longer than ten")
