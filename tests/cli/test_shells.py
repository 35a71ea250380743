"""TAB in a real bash, a real zsh and a real fish, on a terminal, set up as the README says."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Said

PATIENCE = 15.0  # seconds; for a machine that is busy with something else
INTERACTIVE = {"bash": ["bash", "-i"], "zsh": ["zsh", "-i"], "fish": ["fish", "-i"]}
ESCAPES = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[=>()][0-9A-Z]?)|\x08|\r")


class Terminal:
    """A program on a pty. What it has shown since `send` is waited for, never slept for."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.shown = b""

    def send(self, keys: str) -> None:
        self.shown = b""
        os.write(self.fd, keys.encode())

    def wait_for(self, pattern: str) -> str:
        wanted = re.compile(pattern.encode())
        while not wanted.search(plain := ESCAPES.sub(b"", self.shown)):
            ready, _, _ = select.select([self.fd], [], [], PATIENCE)
            assert ready, f"{pattern!r} did not come; there is {plain[-2000:]!r}"
            self.shown += os.read(self.fd, 65536)
        return plain.decode(errors="replace")


@contextmanager
def terminal(words: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    words = ["setsid", "--ctty", *words]  # a session of its own, with this terminal as its own
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


@pytest.fixture
def world(home: Path, run: Callable[..., Said], brief: Callable[..., Path], tmp_path: Path) -> dict[str, str]:
    """Eleven tasks, one with a title that a shell must not obey; a `dispatcher` on the PATH; the environment."""
    for number in range(11):
        title = f"$(touch {tmp_path}/hacked) \\$(touch {tmp_path}/hacked) '; touch {tmp_path}/hacked; '" * (number == 5)
        path = brief(f"---\nexpect: report\n---\n# {title or 'Say it'}\n\nIn line {number}.\n", f"{number}.md")
        assert run("add", str(path)).code == 0
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "dispatcher").write_text(f'#!/bin/sh\nexec {sys.executable} -m dispatcher.cli "$@"\n')
    (programs / "dispatcher").chmod(0o755)
    user = tmp_path / "person"
    user.mkdir()
    return {
        **os.environ,
        "HOME": str(user),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm",
        "XDG_CONFIG_HOME": str(user / ".config"),
        "COLUMNS": "100",
    }


@pytest.fixture(params=sorted(INTERACTIVE))
def shell(request: pytest.FixtureRequest, world: dict[str, str]) -> str:
    """A shell whose start-up file has the line that the README gives."""
    name = str(request.param)
    for program in (name, "setsid"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    user = Path(world["HOME"])
    for file in (".bashrc", ".zshrc"):
        (user / file).write_text(f"PS1='ready> '\neval \"$(dispatcher completion {name})\"\n")
    (user / ".config" / "fish").mkdir(parents=True)
    prompt = "function fish_prompt; echo 'ready> '; end\nset fish_greeting\n"
    (user / ".config" / "fish" / "config.fish").write_text(f"{prompt}dispatcher completion fish | source\n")
    return name


def test_a_shell_completes(shell: str, world: dict[str, str], tmp_path: Path) -> None:
    with terminal(INTERACTIVE[shell], world) as screen:
        screen.wait_for("ready> ")
        screen.send("dispatcher retr\t")
        screen.wait_for("dispatcher retry ")
        screen.send("\x15dispatcher show 1\t\t")
        assert screen.wait_for(r"11") is not None
        screen.send("\x15dispatcher log --status pau\t")
        screen.wait_for("paused ")
        screen.send("\x15dispatcher hold str\t")
        screen.wait_for("strong ")
        screen.send("\x15dispatcher show \t\t")
        screen.wait_for(r"10[ \S\n]*")
        screen.send("\x15echo still' 'here\r")
        screen.wait_for("still here")
    assert not (tmp_path / "hacked").exists()
