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
    pytest.mark.timeout(240),
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
    """The first worker waits until the second tick has found more briefs; then both go on, and nothing ran twice."""
    world.limits = {"jobs": 2}
    world.write_config()
    go, log = world.root / "go", world.home / "logs/cron.log"

    def brief(name: str) -> None:
        wait = {"shell": f"env > {world.root}/env-{name}; while [ ! -e {go} ]; do sleep 0.1; done"}
        steps = [wait, {"write": {"path": f"{name}.txt", "content": name}}, {"commit": f"add {name}"}]
        world.brief(name, f"Do {name}.\n\n```script\n" + json.dumps([{"steps": steps}]) + "\n```\n")

    brief("a")
    world.run("cron", "install", "--every", "1m", "--add", str(world.home / "briefs"), check=True)
    assert world.run("cron", "show", check=True).stdout.startswith("* * * * * cd ")
    until((world.root / "env-a").exists)
    for name in ("b", "c", "d"):
        brief(name)
    until((world.root / "env-b").exists)
    until(lambda: len(runners(world)) == 2 or "nothing to do" in log.read_text())
    go.touch()
    until(lambda: world.rows("select count(*) as n from task where status = 'needs_review'")[0]["n"] == 4)
    world.run("cron", "remove", check=True)
    until(lambda: not runners(world))

    tasks = world.rows("select * from task")
    assert len(tasks) == 4, "the same folder each minute queues nothing twice"
    assert {task["source"] for task in tasks} == {"cron"}
    assert world.rows("select task_id from attempt group by task_id having count(*) > 1") == []
    batches = world.rows("select * from batch")
    assert len(batches) == 2, "what each tick found is one"
    assert all(row["ended_at"] is not None for row in batches)
    worker = (world.root / "env-a").read_text().splitlines()
    assert "LANG=C.UTF-8" in worker
    assert not any(text.startswith("SCRIPTED_KEY=") for text in worker)
    assert "ended: 3 needs_review" in log.read_text()
    status = json.loads(world.run("status", "--json", check=True).stdout)
    assert status["last_run"]["source"] == "cron"
