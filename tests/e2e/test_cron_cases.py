"""Stories from the field about bare environments, unwatched queues and readers that stay. The numbers count them."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_field_cases import executable
from tests.e2e.world import PROGRAM, World, marked, script, scripted_world, until

WORK = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def bare(world: World, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As cron starts it, with these variables and no others."""
    return subprocess.run(
        [str(PROGRAM), *words, "--home", str(world.home)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "below", [".local/bin", ".opencode/bin", ".bun/bin", ".nvm/versions/node/v22.1.0/bin", "configured"]
)
def test_114_the_cli_is_found_with_the_path_of_cron(world: World, below: str) -> None:
    """`claude: command not found`, 127, for five weeks. It is started by its absolute path, which doctor prints."""
    program = world.user_home / below / "opencode"
    program.parent.mkdir(parents=True)
    executable(program, f'[ "$1" = --version ] && echo 1.18.33 && exit\necho "$0" > "{world.root}/started"\n')
    text = world.config_text().replace("harness: scripted", "harness: opencode")
    if below == "configured":
        text += f"harnesses: {{opencode: {{path: '{program}'}}}}\n"
    (world.home / "models.yaml").write_text(text)
    world.add(world.brief("found", "Do it.", candidates=["first"], limits={"starts": 1}))
    cron = {"HOME": str(world.user_home), "PATH": "/usr/bin:/bin"}
    assert bare(world, "run", **cron).returncode == 1, "it does nothing"
    assert (world.root / "started").read_text().strip() == str(program)
    rows = json.loads(bare(world, "doctor", "--json", **cron).stdout)
    assert [row["text"] for row in rows if row["area"] == "CLIs" and str(program) in row["text"]], rows


def test_114_a_cli_that_is_nowhere_is_said_once(world: World) -> None:
    """Not three times 127: nothing is started, no model is punished, and the other task waits for the same person."""
    (world.home / "models.yaml").write_text(world.config_text().replace("harness: scripted", "harness: opencode"))
    tasks = [world.add(world.brief(name, f"Do {name}.")) for name in ("one", "two")]
    ran = bare(world, "run", HOME=str(world.user_home), PATH="/usr/bin:/bin")
    assert ran.returncode == 1
    for task in tasks:
        row = world.task(task)
        assert (row["status"], world.attempts(task)) == ("needs_human", [])
        assert "opencode is not installed" in row["status_reason"]
    assert world.rows("select * from hold") == []


def test_115_a_home_folder_that_nobody_named_is_asked_for(world: World) -> None:
    """LANG=C, no TZ, no USER: works. Without HOME it says so, and no task is blamed for it."""
    body = script({"steps": [{"write": {"path": "ä😀.txt", "content": "✓"}}, {"commit": "✓ 😀"}, {"text": "Done 😀."}]})
    task = world.add(world.brief("bare", f"Bare 😀.\n{body}"))
    ran = bare(world, "run", PATH="/usr/bin:/bin", LANG="C")
    assert ran.returncode == 2, (ran.stdout, ran.stderr)
    assert "HOME is not set" in ran.stderr
    assert (world.task(task)["status"], world.attempts(task)) == ("queued", [])
    ran = bare(world, "run", PATH="/usr/bin:/bin", LANG="C", HOME=str(world.user_home))
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.branch_log(task) == ["✓ 😀"]
    told = bare(world, "show", str(task), PATH="/usr/bin:/bin", LANG="C", HOME=str(world.user_home))
    assert (told.returncode, told.stderr) == (0, "")


def test_123_one_poisoned_task_does_not_eat_the_night(world: World) -> None:
    """The same item was taken for 8.5 hours, 313 dollars. Here it is given up, and the queue moves on."""
    world.limits = {"attempts": 2, "starts": 4}
    world.write_config()
    poison = world.add(world.brief("poison", script({"steps": [{"exit": 1}]}), priority=9))
    after = world.add(world.brief("after", "Later.\n" + script({"steps": WORK})))
    assert world.run("run", "-j", "1").returncode == 1
    row = world.task(poison)
    assert row["status"] == "needs_human", world.story(poison)
    assert "2 of 2 redispatches" in row["status_reason"]
    assert len(world.attempts(poison)) == 3
    assert world.task(after)["status"] == "needs_review"
    assert world.attempts(after)[0]["started_at"] > world.attempts(poison)[-1]["ended_at"]
    world.run("run")
    assert len(world.attempts(poison)) == 3, "it is a person's now"


def test_126_status_tells_of_the_last_tick_of_successes_and_of_what_is_parked(world: World) -> None:
    """A silent failure of cron: nobody reads its mail."""
    limited = [{"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}]
    task = world.do(world.brief("one", script({"model": "scripted/s1", "steps": limited}, {"steps": WORK})))
    last = world.attempts(task)[-1]
    found = json.loads(world.run("status", "--json", check=True).stdout)
    assert found["last_run"]["at"] <= last["started_at"]
    success = {row["candidate"]: row["at"] for row in found["last_success"]}
    assert (success["second"], success.get("first")) == (last["ended_at"], None)
    [hold] = found["holds"]
    assert (hold["key"], hold["until"] > last["ended_at"]) == ("test/scripted/s1", True)
    assert hold["reason"]
    text = " ".join(world.run("status", check=True).stdout.split())
    for words in ("last run", "Last success", "second", "test/scripted/s1", " ".join(hold["reason"].split())):
        assert words in text, words


def test_128_a_pager_over_the_log_blocks_no_writer(world: World) -> None:
    """`dispatcher log | less`, left open over night: its pipe is full, and it holds neither lock nor snapshot."""
    task = world.do(world.brief("one", script({"steps": WORK})))
    with sqlite3.connect(world.home / "logs/dispatcher.db") as database:
        database.execute("update task set title = ? where id = ?", ("words " * 40_000, task))
    database.close()
    with subprocess.Popen(
        world.command("log", "--json", "--columns", "title"),
        env=world.environment,
        cwd=world.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as pager:
        assert pager.stdout is not None
        try:
            until(lambda: waiting(pager.stdout.fileno()) >= 65_536, "the pipe is full")  # type: ignore[union-attr]
            writer = sqlite3.connect(world.home / "logs/dispatcher.db", timeout=0, isolation_level=None)
            writer.execute("update task set notes = 'meanwhile'")
            assert writer.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0, "somebody reads an old state"
            writer.close()
            assert pager.poll() is None
            assert len(json.loads(pager.stdout.read())) == 1
        finally:
            pager.kill()


def waiting(pipe: int) -> int:
    """Bytes in a pipe that nobody has read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), "little")
