"""`tail -f` beside a live run of the real CLIs: what the worker says is read while it works, through a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.world import World, marked, real_world

pytestmark = pytest.mark.real_cli

WAIT = {"text": "I will wait, and then set the value.", "shell": "while ! test -e go; do sleep 0.05; done; rm go"}
FAIL = {"shell": "./check.sh && echo '\\033[2J'"}
COMMIT = {"shell": "echo 2 > value.txt && git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2.\n\nGrüße \x1b[31m🦊"}


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        yield real_world(tmp_path, cli, server)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def test_a_worker_is_heard_while_it_works(world: World) -> None:
    world.script(0, [WAIT, FAIL, COMMIT, DONE])
    task = world.add(world.brief("slow", "Make value.txt hold 2.", verify=["./check.sh"]))
    words = world.command("tail", "-f", str(task))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=world.environment, cwd=world.root, **pipes) as tail:  # type: ignore[call-overload]
        run = world.start("run", "--quiet")
        try:
            first = tail.stdout.readline()
            assert first == "I will wait, and then set the value.\n"
            assert world.attempts(task)[0]["ended_at"] is None, "heard only when it was over"
            Path(world.task(task)["copy_path"], "go").touch()
            rest, notes = tail.communicate(timeout=120)
        finally:
            run.wait(120)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    said = rest.splitlines()
    tool = "bash" if world.harness == "opencode" else "Bash"
    assert any(line.startswith(f"> {tool}: echo 2 > value.txt") for line in said), rest
    assert any("Grüße \\e[31m🦊" in line for line in said), rest
    assert any(line.startswith("= finished") for line in said), rest
    assert "\x1b" not in rest
    assert notes.splitlines()[0].startswith("--- attempt 1: first prompt to first")
    assert notes.splitlines()[-1].startswith("--- needs_review: "), notes
