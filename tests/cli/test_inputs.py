"""Input that would be read for ever, means something else than was typed, or means nothing: refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_a_device_is_no_export(home: Path, run: Run) -> None:
    said = run("import", "/dev/zero")
    assert (said.code, said.err.splitlines()[0]) == (2, "error: /dev/zero is a device")


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
