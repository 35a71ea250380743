"""Where the process starts: errors as lines, exit codes, nothing that a person should not see."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatcher import __version__
from dispatcher.cli import app, entry, express
from dispatcher.cli.entry import main
from dispatcher.errors import BadInput, InternalError

PROGRAM = [sys.executable, "-m", "dispatcher.cli"]


def fail_with(error: BaseException) -> Any:
    def run(arguments: list[str]) -> int:
        raise error

    return run


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version(run: Any, word: str) -> None:
    assert run(word) == (said := run(word))
    assert (said.code, said.out, said.err) == (0, f"dispatcher {__version__}\n", "")


def test_version_by_typer_says_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capfd.readouterr().out == f"dispatcher {__version__}\n"


def test_no_arguments_is_a_question_for_help(run: Any) -> None:
    assert run() == run("--help")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["ad"], "error: there is no command 'ad'; did you mean add?", "hint: dispatcher --help"),
        (["frobnicate"], "error: there is no command 'frobnicate'", "hint: dispatcher --help"),
        (["run", "-j", "x"], "error: invalid value for '--jobs' / '-j'", "hint: dispatcher run --help"),
        (["run", "-j", "0"], "error: invalid value for '--jobs' / '-j'", "hint: dispatcher run --help"),
        (["show"], "error: missing argument 'TASK'", "hint: dispatcher show --help"),
        (["show", "1", "2"], "error: got unexpected extra argument", "hint: dispatcher show --help"),
        (["status", "--nope"], "error: no such option: --nope", "hint: dispatcher status --help"),
        (["frob\x1b[2Jnicate"], "error: there is no command 'frob\\x1b[2Jnicate'", "hint: dispatcher --help"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_a_hint(run: Any, words: list[str], message: str, hint: str) -> None:
    said = run(*words)
    lines = said.err.splitlines()
    assert said.code == 2
    assert said.out == ""
    assert len(lines) == 2
    assert lines[0].startswith(message)
    assert lines[1] == hint


@pytest.mark.parametrize(("error", "code"), [(BadInput("no", hint="do\x1b this"), 2), (InternalError("ours"), 70)])
def test_our_errors_bring_their_exit_code(run: Any, monkeypatch: pytest.MonkeyPatch, error: Any, code: int) -> None:
    monkeypatch.setattr(express, "run", fail_with(error))
    said = run("status")
    assert said.code == code
    assert said.err == f"error: {error.message}\n" + ("hint: do\\e this\n" if error.hint else "")


def test_an_unknown_error_is_one_line_and_a_saved_traceback(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(express, "run", fail_with(KeyError("what went wrong")))
    said = run("status")
    [file] = (tmp_path / "dispatcher").iterdir()
    assert said.code == 70
    assert said.err == f"error: internal error (KeyError); the traceback is in {file}\n"
    text = file.read_text(encoding="utf-8")
    assert "what went wrong" in text
    assert __version__ in text


def test_a_traceback_is_saved_elsewhere_when_the_state_folder_cannot_be_written(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(express, "run", fail_with(ZeroDivisionError()))
    said = run("status")
    [file] = tmp_path.glob("crash-*.txt")
    assert str(file) in said.err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/x\n"), "/x\\n cannot be used: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "/x cannot be used: No space left on device"),
        (OSError(errno.EIO, "Input/output error", "/x"), "/x cannot be used: Input/output error"),
    ],
)
def test_what_the_system_refuses_is_no_fault_of_ours(
    run: Any, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    monkeypatch.setattr(express, "run", fail_with(error))
    found = run("status")
    assert (found.code, found.err.splitlines()[0]) == (2, f"error: {said}")
    assert "\nhint: " in found.err


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EPERM, "of a signal"), FileNotFoundError(errno.ENOENT, "gone", "/x")]
)
def test_what_may_be_our_fault_is_confessed(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(express, "run", fail_with(error))
    assert run("status").code == entry.OUR_FAULT


@pytest.mark.parametrize(
    "words",
    [
        "add {}",
        "add {b} --repo {}",
        "run --add {}",
        "status --home {}",
        "init {}",
        "trust --home {}",
        "classify {}",
        "export {}",
        "import {} --home {new}",
        "import --from opencode {}",
        "import --from claude {}",
        "cron show --home {}",
        "report --html {}",
    ],
)
def test_a_name_that_no_file_can_have(home: Path, run: Any, brief: Any, tmp_path: Path, words: str) -> None:
    one = brief("---\nexpect: report\n---\n# Say it\n")
    run("add", str(one))
    said = run(*(word.format("n" * 300, b=one, new=tmp_path / "new") for word in words.split()))
    assert said.code == 2
    assert "File name too long" in said.err
    assert "internal" not in said.err


def test_ctrl_c_is_no_error_of_ours(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(express, "run", fail_with(KeyboardInterrupt()))
    said = run("status")
    assert (said.code, said.err) == (entry.INTERRUPTED, "interrupted\n")


def test_arguments_under_a_locale_that_knows_ascii_alone(home: Path, repository: Path, brief: Any) -> None:
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "dispatcher.cli"]
    file = brief("# Grüße\n\nDo it.\n", name="grüße.md")
    for more in (["add", "--repo", str(repository), str(file)], ["hold", "small", "--reason", "für später"]):
        done = subprocess.run([*words, *more], env=ascii_only, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    holds = subprocess.run([*words, "holds", "--json"], env=ascii_only, capture_output=True, check=True)
    assert "f\\u00fcr sp\\u00e4ter" in holds.stdout.decode()
    done = subprocess.run(
        [*words, "hold", "large", "--reason", b"\xff\xfe"], env=ascii_only, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        b"error: the argument '\\udcff\\udcfe' is not UTF-8 text",
    )


def test_a_reader_that_goes_away_is_no_error_of_ours() -> None:
    """`dispatcher --help | true`: the pipe has no reader when we write."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, "add", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (entry.BROKEN_PIPE, b"")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("status >&-", 0),
        ("log >&- 2>&-", 0),
        ("run <&- >&- 2>&-", 0),
        ("run --dry-run >&-", 0),
        ("export >&-", 0),
        ("--version >&-", 0),
        ("nope 2>&-", 2),
        ("show 7 2>&-", 2),
        ("add - <&-", 2),
    ],
)
def test_closed_streams_are_filled(home: Path, run: Any, brief: Any, tmp_path: Path, line: str, code: int) -> None:
    run("add", str(brief("---\nexpect: report\n---\n# Say it\n\nIn a line.\n")))
    run("pause", "1")
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m dispatcher.cli {line}', sys.executable],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.splitlines()[:1] == ([b"error: stdin:1: the brief has no body"] if "add" in line else [])
    assert not list(tmp_path.rglob("crash-*"))


def test_a_child_finds_dev_null_in_place_of_a_closed_stream() -> None:
    looks = "import os; os.write(2, os.readlink('/proc/self/fd/1').encode())"
    code = (
        "import subprocess, sys; from dispatcher.cli.entry import main; main(['--version']);"
        f"subprocess.run([sys.executable, '-c', {looks!r}])"
    )
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"/dev/null")


def test_a_terminal_that_knows_no_unicode_still_gets_its_listing(home: Path, run: Any, brief: Any) -> None:
    run("add", str(brief("---\nexpect: report\n---\n# Grüße \U0001f600\n")))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([*PROGRAM, "show", "1"], capture_output=True, env=environment, check=True)
    assert b"Gr\\xfc\\xdfe \\U0001f600" in done.stdout


def test_sigpipe_and_sigint_keep_pythons_meaning() -> None:
    before = {name: signal.getsignal(name) for name in (signal.SIGPIPE, signal.SIGINT)}
    assert main(["--version"]) == 0
    assert {name: signal.getsignal(name) for name in before} == before
