"""A real cron daemon (Debian's package) starts `run --add` each minute, with cron's own bare environment.

Takes two minutes and edits this account's crontab (and puts it back), so it runs only where DISPATCHER_TEST_CRON=1 says
that it may.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.world import World, marked, scripted_world

pytestmark = [
    pytest.mark.slow_cron,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.environ.get("DISPATCHER_TEST_CRON") != "1", reason="DISPATCHER_TEST_CRON=1 runs it"),
    pytest.mark.skipif(shutil.which("cron") is None, reason="there is no cron daemon"),
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    before = subprocess.run(["crontab", "-l"], capture_output=True, check=False)
    daemon = subprocess.Popen([shutil.which("cron") or "cron", "-f"], start_new_session=True)
    try:
        yield scripted_world(tmp_path)
    finally:
        daemon.kill()
        daemon.wait()
        if before.returncode == 0:
            subprocess.run(["crontab", "-"], input=before.stdout, check=True)
        else:
            subprocess.run(["crontab", "-r"], check=False, capture_output=True)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def until(true: Callable[[], bool]) -> None:
    while not true():  # the test's own time limit ends a wait for nothing
        time.sleep(0.1)


def runners(world: World) -> list[Path]:
    return list((world.home / "logs").glob("runner-*.lock"))


def test_two_overlapping_ticks_finish_the_batch(world: World) -> None:
    """The first tick's workers wait until a second runner is there; then all go on, and nothing ran twice."""
    world.limits = {"jobs": 2}
    world.write_config()
    go = world.root / "go"
    for name in ("a", "b", "c", "d"):
        wait = {"shell": f"env > {world.root}/env-{name}; while [ ! -e {go} ]; do sleep 0.1; done"}
        steps = [wait, {"write": {"path": f"{name}.txt", "content": name}}, {"commit": f"add {name}"}]
        world.brief(name, "Do what it says.\n\n```script\n" + json.dumps([{"steps": steps}]) + "\n```\n")
    environment = {**world.environment, "XDG_STATE_HOME": str(world.user_home / ".local/state")}
    words = ("cron", "install", "--every", "1m", "--add", str(world.home / "briefs"))
    world.run(*words, check=True, env=environment)
    line = world.run("cron", "show", check=True).stdout
    assert line.startswith("* * * * * cd ")

    until(lambda: len(runners(world)) == 2)
    assert [row["status"] for row in world.rows("select status from task where status = 'running'")] == ["running"] * 2
    go.touch()
    until(lambda: world.rows("select count(*) as n from task where status = 'needs_review'")[0]["n"] == 4)
    world.run("cron", "remove", check=True)
    until(lambda: not runners(world))

    tasks = world.rows("select * from task")
    assert len(tasks) == 4, "the same folder each minute queues nothing twice"
    assert {task["source"] for task in tasks} == {"cron"}
    assert world.rows("select task_id from attempt group by task_id having count(*) > 1") == []
    batch = world.rows("select * from batch")
    assert len(batch) == 1
    assert batch[0]["ended_at"] is not None
    worker = (world.root / "env-a").read_text().splitlines()
    assert "LANG=C.UTF-8" in worker
    assert not any(text.startswith("SCRIPTED_KEY=") for text in worker)
    assert "ended: 4 needs_review" in (world.home / "logs/cron.log").read_text()
    status = json.loads(world.run("status", "--json", check=True).stdout)
    assert status["last_run"]["source"] == "cron"
