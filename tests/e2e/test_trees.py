"""No process outlives an attempt of the real CLIs, however it hides and however the attempt ends.

The CLI is started by a shell wrapper. Its model runs a script of the repository that leaves a family behind: a child in
a session of its own, a daemon that was forked twice and threw its environment away, one under nohup, one that ignores
TERM, and one that holds the CLI's own standard output. Who is left is seen by an independent walk through /proc.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dispatcher.demo.model_server import ModelServer
from dispatcher.supervisor import spec
from tests.clis import Cli, need_cli
from tests.e2e.world import World, marked, until

pytestmark = pytest.mark.real_cli

FAMILY = """\
n=$1
setsid sleep ${n}1 </dev/null >/dev/null 2>&1 &
(env -i setsid sh -c "sleep ${n}2 & exit 0" </dev/null >/dev/null 2>&1 &)
nohup sleep ${n}3 </dev/null >/dev/null 2>&1 &
sh -c "trap '' TERM; while :; do sleep ${n}4; done" </dev/null >/dev/null 2>&1 &
p=$$
until case "$(readlink /proc/$p/fd/1)" in */stdout) true ;; *) false ;; esac; do
    p=$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f2)
done
setsid sleep ${n}5 </dev/null >>/proc/$p/fd/1 2>&1 &
until [ "$(grep -l "sleep" /proc/[0-9]*/cmdline 2>/dev/null | xargs grep -ls "${n}[1-5]" 2>/dev/null | wc -l)" -ge 5 ]
do sleep 0.1; done
echo up > "$TMPDIR/ready"
case $2 in
    gate) until [ -e "$TMPDIR/go" ]; do sleep 0.1; done ;;
    work) while :; do echo x >> "$TMPDIR/work"; sleep 0.2; done ;;
esac
"""
EDIT = {"text": "I will set the value.", "shell": "echo 2 > value.txt"}
COMMIT = {"shell": "git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2, committed."}


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n"{need_cli(cli)}" "$@"\nexit $?\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    with ModelServer() as server:
        made = World(tmp_path, cli, server, wrapper).build()
        (made.repo / "family.sh").write_text(FAMILY)
        made.git("add", ".")
        made.git("commit", "-qm", "a script that leaves a family behind")
        yield made
        left = marked(str(tmp_path))
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert left == [], "a process was left behind"


def number() -> str:
    """Seconds to sleep that nobody else on this machine sleeps: the family is known by them."""
    return f"7{os.getpid()}{time.time_ns() // 1_000_000 % 1000:03}"


def ready(world: World, task: int) -> Path:
    """The worker's own folder for temporary files, once its family lives."""
    row = world.task
    until(lambda: row(task)["copy_path"] is not None, "the copy")
    folder = Path(row(task)["copy_path"]).parent / "tmp"
    end = time.monotonic() + 120
    while not (folder / "ready").exists():
        assert time.monotonic() < end, (world.root / "run.out").read_text()
        time.sleep(0.02)
    (folder / "ready").unlink()
    return folder


def test_kill_9_of_the_dispatcher_ctrl_c_twice_ctrl_c_once_and_a_normal_end(world: World) -> None:
    first, second, third = (number() + last for last in "123")
    finish, on = ({"text": "Again.", "shell": f"sh ./family.sh {name} gate"} for name in (second, third))
    world.script(
        0,
        [
            {"when": "Prompt: continue", "steps": [on, COMMIT, DONE]},
            {"when": "Prompt: finish", "steps": [finish]},
            EDIT,
            {"shell": f"sh ./family.sh {first} gate"},
            DONE,
        ],
    )
    task = world.add(world.brief("family", "Make value.txt hold 2."))
    run = world.start("run")
    folder = ready(world, task)
    run.kill()
    run.wait()
    assert len(marked(first)) >= 5, "the supervisor keeps the worker alive"
    (folder / "go").touch()
    attempt = Path(world.attempts(task)[0]["folder"])
    until(lambda: spec.read_exit(attempt) is not None and not spec.alive(attempt), "the end without a dispatcher", 120)
    assert marked(first) == [], "after kill -9 of the dispatcher"
    (folder / "go").unlink()

    run = world.start("run")
    ready(world, task)
    run.kill()
    run.wait()
    owner = world.task(task)["owner"]
    run = world.start("run")
    until(lambda: world.task(task)["owner"] != owner, "the take-over")
    until(lambda: (world.root / "run.out").read_text().count("adopts") == 2, "the adoption")
    assert len(marked(second)) >= 5
    run.send_signal(signal.SIGINT)
    said = "Ctrl-C again ends them now"  # two signals that are pending at once would be one
    until(lambda: said in (world.root / "run.out").read_text(), "the first was taken")
    run.send_signal(signal.SIGINT)
    run.wait(60)
    assert marked(second) == [], "after Ctrl-C twice"
    assert world.task(task)["status"] == "queued", world.story(task)

    run = world.start("run")
    ready(world, task)
    run.send_signal(signal.SIGINT)
    until(lambda: (world.root / "run.out").read_text().count(said) == 2, "it was taken")
    assert len(marked(third)) >= 5, "Ctrl-C once ends nobody"
    (folder / "go").touch()
    assert run.wait(120) == 0, (world.root / "run.out").read_text()
    assert marked(third) == [], "after Ctrl-C once, at a normal end"
    assert world.task(task)["status"] == "needs_review", world.story(task)
    ended = [(a["prompt"], a["outcome"], a["survivors"]) for a in world.attempts(task)]
    assert ended == [("first", "completed", 0), ("finish", "stopped", 0), ("continue", "completed", 0)]
    assert world.branch_log(task) == ["set the value to 2"]
    said = "".join(Path(a["folder"], "stderr").read_text() for a in world.attempts(task))
    assert "stdin" not in said, "the CLI waited for a prompt that it had"


def test_a_stall_and_the_hard_cap(world: World) -> None:
    """Two tasks at once: the model of the one never answers while its family lives on, a tool of the other works
    until the cap."""
    stalls, capped = number() + "1", number() + "2"
    finish = {"when": "Prompt: finish", "steps": [COMMIT, DONE]}
    world.script(0, [finish, EDIT, {"shell": f"sh ./family.sh {stalls}"}, {"hang": True}])
    world.script(1, [finish, EDIT, {"shell": f"sh ./family.sh {capped} work"}])
    body = "Make value.txt hold 2."
    first = world.add(world.brief("stall", body, candidates=["first"], limits={"stall": "25s", "finish_attempts": 4}))
    second = world.add(world.brief("cap", f"{body}.", candidates=["second"], limits={"hard_cap": "40s"}))
    run = world.start("run", "-j", "2")
    ready(world, first)
    ready(world, second)
    assert len(marked(stalls)) >= 5
    assert run.wait(200) == 0, (world.root / "run.out").read_text()
    assert marked(stalls) == marked(capped) == []
    for task, reason in ((first, "stalled"), (second, "hard_cap")):
        ended = [(a["prompt"], a["end_reason"], a["survivors"]) for a in world.attempts(task)]
        assert ended[0] == ("first", reason, 0), world.story(task)
        assert all(survivors == 0 for _, _, survivors in ended), world.story(task)
        assert world.task(task)["status"] == "needs_review", world.story(task)
        assert world.branch_log(task) == ["set the value to 2"]
