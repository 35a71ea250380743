"""The real CLIs and the scripted worker inside bubblewrap: they work, commit, and see nothing that is not theirs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.world import World, marked, real_world

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

EDIT = {"text": "I will set the value.", "shell": "echo 2 > value.txt"}
COMMIT = {"shell": "git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2, committed."}


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        made = real_world(tmp_path, cli, server)
        made.extra_config = "sandbox: bwrap\n"
        made.write_config()
        yield made
    assert marked(str(tmp_path)) == [], "a process was left behind"


PROBE = """
seen() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }
{
echo "other user files: $(seen test -e {user}/.ssh/id_test)"
echo "database: $(seen test -e {home}/logs/dispatcher.db)"
sh -c 'touch {repo}/planted'
echo "read the repository: $(seen cat {repo}/value.txt)"
echo "write to the root: $(seen touch /etc/planted-by-a-test)"
echo "forge the record: $(seen sh -c 'echo x >> {home}/logs/1/1/attempt.json')"
all=$(sh -c 'cat /proc/[0-9]*/cmdline' | tr '\\0' '\\n')
echo "key in argv: $(echo "$all" | seen grep -qx invented)"
echo "processes: $(ls -d /proc/[0-9]* | wc -l)"
} > probe.txt
"""


@pytest.mark.real_cli
def test_a_real_cli_commits_inside_and_sees_only_its_own(world: World) -> None:
    secret = world.user_home / ".ssh/id_test"
    secret.parent.mkdir()
    secret.write_text("private")
    probe = PROBE
    for name, path in (("{user}", world.user_home), ("{home}", world.home), ("{repo}", world.repo)):
        probe = probe.replace(name, str(path))
    commit = {"shell": "git add value.txt probe.txt && git commit -qm 'set the value to 2'"}
    world.script(0, [EDIT, {"shell": probe.strip()}, commit, DONE])
    task = world.do(world.brief("boxed", "Make value.txt hold 2.", verify=["./check.sh"]))

    row, attempts = world.task(task), world.attempts(task)
    assert row["status"] == "needs_review", world.story(task)
    assert [a["outcome"] for a in attempts] == ["completed"]
    assert attempts[0]["survivors"] == 0
    assert world.branch_log(task) == ["set the value to 2"]
    said = dict(line.split(": ") for line in world.git("show", f"{row['branch']}:probe.txt").splitlines())
    assert int(said.pop("processes")) < 12, "it sees its own processes and no others"
    assert said == {
        "other user files": "no",
        "database": "no",
        "read the repository": "no",
        "write to the root": "no",
        "forge the record": "no",
        "key in argv": "no",
    }
    assert not (world.repo / "planted").exists()
    assert "bwrap" in (world.home / f"logs/{task}/1/attempt.json").read_text()
    assert "invented" not in (world.home / f"logs/{task}/1/attempt.json").read_text()


@pytest.mark.real_cli
def test_the_session_goes_on_in_the_next_sandbox(world: World) -> None:
    """The task's own home folder holds the session, so a finish prompt finds it."""
    broken = {"error": {"status": 400, "message": "something broke"}, "repeat": True}
    world.script(0, [{"when": "Prompt: finish", "steps": [COMMIT, DONE]}, EDIT, broken])
    task = world.do(world.brief("late", "Make value.txt hold 2."))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["candidate"]) for a in attempts] == [("first", "first"), ("finish", "first")]
    assert attempts[0]["session_id"] == attempts[1]["session_id"]
    finishing = [request for request in world.prompts(0) if "Prompt: finish" in request.text]
    assert "Prompt: first" in finishing[0].text, "in the same session, with its history"
    assert not list((world.user_home / ".claude").glob("projects/*")), "the person's own sessions are left alone"


@pytest.mark.real_cli
def test_a_cancel_ends_everything_inside(world: World) -> None:
    nap = f"sleep 87{len(str(world.root))}"
    tool = f"(setsid {nap}1 &) ; (env -i setsid sh -c '{nap}2 & exit 0' &) ; echo > \"$TMPDIR/ready\"; {nap}3"
    world.script(0, [{"shell": tool}, DONE])
    task = world.add(world.brief("slow", "Make value.txt hold 2."))
    process = world.start("run")
    try:
        until(lambda: any(world.user_home.glob("**/tmp/ready")))
        world.run("cancel", str(task), check=True)
        process.wait(120)
    finally:
        process.kill()
        process.wait()

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "cancelled", world.story(task)
    assert attempts[0]["survivors"] == 0
    if world.harness == "claude":
        assert attempts[0]["tokens_output"] == 34, "from the record in the task's own home folder"
    assert marked(nap.replace(" ", "\0")) == []


def until(true: Callable[[], bool]) -> None:
    while not true():  # the test's own time limit ends a wait for nothing
        time.sleep(0.05)
