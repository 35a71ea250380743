"""Stories from the field about how workers are started, resumed and ended, with workers that misbehave on purpose.

The numbers in the names count the same stories as in tests/harness and tests/supervisor.
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.supervisor import spec
from tests.cli.test_render import on_terminal
from tests.e2e.world import World, marked, script, scripted_world, until

DONE = {"text": "Done."}
WRITE = {"write": {"path": "a.txt", "content": "a"}}
COMMIT = {"commit": {"message": "the work", "files": ["a.txt"]}}
WORK = [WRITE, COMMIT, DONE]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def worker(world: World, text: str) -> None:
    """Put a shell script in the place of the worker; `real` in it is the scripted worker."""
    program = world.root / "worker"
    program.write_text(f'#!/bin/sh\nreal() {{ "{sys.executable}" -m dispatcher.demo.worker "$@"; }}\n{text}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    world.program = program
    world.write_config()


def given(attempt: dict[str, Any]) -> spec.AttemptSpec:
    return spec.read(Path(attempt["folder"]))


# --- the end of a worker ------------------------------------------------------------------------------------------


def test_61_84_and_85_a_worker_that_stays_after_its_result(world: World) -> None:
    """The last event is there and the process lives on, deaf to TERM: killed, and its success is not lost. What
    waitpid said stands in the row as it is, and the row has its end at once."""
    world.limits = {"grace": "1s"}
    worker(world, 'trap \'\' TERM\nreal "$@"\n[ "$1" = run ] && sleep 1000\nexit 0')
    task = world.do(world.brief("stays", script({"steps": WORK})))

    [attempt] = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert (attempt["outcome"], attempt["end_reason"]) == ("completed", "finished")
    assert (attempt["exit_code"], attempt["signal"], attempt["timed_out"]) == (None, 9, 0)
    assert attempt["survivors"] == 0
    assert attempt["ended_at"] is not None
    assert world.branch_log(task) == ["the work"]


@pytest.mark.parametrize(
    ("last", "code", "signal"), [("exit 1", 1, None), ("exit 143", 143, None), ("kill -9 $$", None, 9)]
)
def test_48_and_84_the_exit_is_logged_as_it_was_and_decides_nothing(
    world: World, last: str, code: int | None, signal: int | None
) -> None:
    worker(world, f'real "$@"\n[ "$1" = run ] && {last}\nexit 0')
    task = world.do(world.brief("code", script({"steps": WORK})))
    [attempt] = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert (attempt["outcome"], attempt["end_reason"]) == ("completed", "exited")
    assert (attempt["exit_code"], attempt["signal"], attempt["timed_out"]) == (code, signal, 0)


def test_64_a_stream_of_one_event_and_good_work(world: World) -> None:
    """All events but the first were dropped at a clean exit; git and the checks have it all."""
    first = '{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"id":"p","type":"step-start"}}'
    work = f"cat > /dev/null; echo a > a.txt; git add a.txt; git commit -qm 'the work'; echo '{first}'"
    worker(world, f'[ "$1" = run ] || {{ echo 1.18.33; exit 0; }}\n{work}\nexit 0')
    task = world.do(world.brief("cut", "Work.", verify=["test -f a.txt"]))
    [attempt] = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert "stream truncated" in attempt["notes"]
    assert attempt["session_id"] == "ses_1"
    assert world.branch_log(task) == ["the work"]


def test_133_who_ran_is_known_after_the_end(world: World) -> None:
    """The row leads to the folder whose lock still names worker and supervisor, by pid, start time and boot: so that a
    process that somehow lives on can be told from a later one with its number."""
    look = {"shell": "echo $PPID $(sed 's/.*) //' /proc/$PPID/stat | cut -d' ' -f20)"}
    task = world.do(world.brief("who", script({"steps": [look, *WORK]})))
    [attempt] = world.attempts(task)
    folder = Path(attempt["folder"])
    events = [json.loads(line) for line in (folder / "stdout").read_text().splitlines()]
    seen = next(e["part"]["state"]["output"] for e in events if e["type"] == "tool_use")
    held = json.loads((folder / "attempt.lock").read_text())
    assert attempt["ended_at"] is not None
    assert held["leader"] == [int(word) for word in seen.split()]
    assert len(held["supervisor"]) == 2
    assert held["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_58_nothing_that_a_task_starts_eats_the_list_of_a_loop(world: World) -> None:
    """while read brief; do dispatcher ...; done < list: the worker, the commands before and after it, who is told."""
    eats = "cat > /dev/null"
    worker(world, f'real "$@"\n{eats}')
    for name in ("a", "b", "c"):
        world.brief(name, f"Brief {name}.\n{script({'steps': [{'shell': eats}, *WORK]})}", setup=[eats], verify=[eats])
    names = world.root / "list"
    names.write_text("a\nb\nc\n")
    add, run = " ".join(world.command("add")), " ".join(world.command("run", "--notify", f"'{eats}'"))
    loop = f'while read name; do {add} "{world.home}/briefs/$name.md" && {run}; done < {names}'
    subprocess.run(["sh", "-c", loop], env=world.environment, cwd=world.root, check=True, capture_output=True)
    assert [row["status"] for row in world.rows("select status from task")] == ["needs_review"] * 3


# --- the CLI itself -----------------------------------------------------------------------------------------------


def test_80_a_store_that_is_locked_is_tried_again_by_the_same_model(world: World) -> None:
    """Two workers start at once and meet on the CLI's own database: no model is to blame, and the second try of the
    two is not at the same moment again."""
    locked = [{"stderr": "Error: Unexpected error\n\ndatabase is locked\n"}, {"exit": 1}]
    rules = ({"times": 1, "steps": locked}, {"steps": WORK})
    tasks = [world.add(world.brief(name, f"Task {name}.\n{script(*rules)}")) for name in ("one", "two")]
    ran = world.run("run", "-j", "2")
    assert ran.returncode == 0, ran.stderr
    for task in tasks:
        ended = [(a["candidate"], a["outcome"], a["counted"]) for a in world.attempts(task)]
        assert ended == [("first", "harness_locked", 0), ("first", "completed", 0)], world.story(task)
        first, second = world.attempts(task)
        assert second["started_at"] - first["ended_at"] >= 3
        assert json.loads(world.task(task)["counters"])["attempts"] == 0
    assert world.rows("select * from hold") == []


def test_81_the_version_that_ran_is_logged_with_each_attempt(world: World) -> None:
    """The CLI updates itself between two attempts of one batch."""
    version, program = world.root / "version", world.root / "worker"
    version.write_text("1.18.33\n")
    worker(world, f'[ "$1" = --version ] && {{ cat {version}; exit 0; }}\nreal "$@"')
    update = {"shell": f"echo 1.18.34 > {version}; echo '# newer' >> {program}"}
    rules = ({"prompt": "Prompt: finish", "steps": [COMMIT, DONE]}, {"steps": [WRITE, update, {"exit": 1}]})
    task = world.do(world.brief("update", script(*rules)))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["harness_version"] for a in world.attempts(task)] == ["1.18.33", "1.18.34"]
    assert [given(a).versions for a in world.attempts(task)] == [{"scripted": "1.18.33"}, {"scripted": "1.18.34"}]


# --- sessions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", ["kept", "elsewhere"])
def test_82_and_83_a_session_is_resumed_by_its_id_in_its_own_folder_or_not_at_all(world: World, copy: str) -> None:
    """A continue prompt in another folder hangs or finds nothing. The copy is deleted while the task is paused, and by
    then the repository says that its tasks work in place."""
    reached = world.root / "reached"
    on = [WRITE, COMMIT, DONE] if copy == "elsewhere" else [COMMIT, DONE]
    rules = (
        {"prompt": "Prompt: continue", "steps": on},
        {"steps": [WRITE, {"shell": f"touch {reached}; sleep 4329"}]},
    )
    task = world.add(world.brief("moved", script(*rules)))
    run = world.start("run")
    until(reached.exists, "the worker")
    world.run("pause", str(task), check=True)
    run.wait(60)
    assert world.task(task)["status"] == "paused", world.story(task)
    if copy == "elsewhere":
        shutil.rmtree(world.task(task)["copy_path"])
        world.extra_config = f"repositories: {{'{world.repo}': {{copy: in_place}}}}\n"
        world.write_config()
    world.run("resume", str(task), check=True)
    world.run("run")

    first, second = world.attempts(task)
    assert second["prompt"] == "continue", world.story(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    before, after = given(first), given(second)
    if copy == "kept":
        assert after.cwd == before.cwd
        assert after.argv[after.argv.index("--session") + 1] == first["session_id"] == second["session_id"]
    else:
        assert after.cwd == str(world.repo) != before.cwd
        assert "--session" not in after.argv
        assert second["session_id"] not in (None, first["session_id"])
    assert not {"--continue", "-c", "--last"} & set(after.argv)


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["stale", "unreadable"])
def test_18_and_22_a_limit_that_comes_back_waits_longer_each_time(world: World, said: str) -> None:
    """It still shows the reset of an hour that has passed, or one that nobody can read: no tight loop, no whole day."""
    passed = time.strftime("%I:%M%p", time.gmtime(time.time() - 300)).lower()
    text = (
        f"You've hit your session limit · resets {passed} (UTC)" if said == "stale" else "Rate limit · resets 3/8, no 7"
    )
    limited = [{"error": {"status": 429, "message": text}}]
    (world.home / "models.yaml").write_text(world.config_text().replace("[first, second, third]", "[first]"))
    task = world.add(world.brief("again", script({"steps": limited})))
    waits = []
    for _ in range(3):
        assert world.run("run").returncode == 75, world.story(task)
        [hold] = world.rows("select * from hold where lifted_at is null")
        waits.append(hold["until"] - hold["created_at"])
        assert world.task(task)["not_before"] == hold["until"]
        world.run("release", hold["key"], check=True)
    assert waits == [pytest.approx(60, abs=2), pytest.approx(900, abs=2), pytest.approx(1800, abs=2)]
    assert len(world.attempts(task)) == 3


def test_44_an_overflow_goes_to_a_larger_window_or_ends_with_its_reason(world: World) -> None:
    """The window that fits comes first, wherever it stands in the list; a hold for nobody."""
    text = world.config_text()
    for number, window in ((1, 100_000), (2, 50_000), (3, 200_000)):
        model = f"model: scripted/s{number}, credential: test"
        text = text.replace(model, f"{model}, context_window: {window}")
    (world.home / "models.yaml").write_text(text)
    too_long = [{"error": {"status": 400, "message": "prompt is too long: 208310 tokens"}}]
    fits = world.add(world.brief("fits", script({"model": "scripted/s[12]", "steps": too_long}, {"steps": WORK})))
    never = world.add(world.brief("never", "Never.\n" + script({"steps": too_long})))
    assert world.run("run", "-j", "1").returncode == 1
    assert [a["candidate"] for a in world.attempts(fits)] == ["first", "third"], world.story(fits)
    assert world.task(fits)["status"] == "needs_review"
    assert world.task(never)["status"] == "needs_human"
    assert "context_overflow" in world.task(never)["status_reason"]
    assert world.rows("select * from hold") == []


# --- what a person sees -------------------------------------------------------------------------------------------


def test_77_no_listing_passes_a_workers_escapes_on_to_a_terminal(world: World) -> None:
    """On a terminal, where our own colours are escape codes too: not its title, not its screen, not its links."""
    evil = ["\x1b]0;owned\x07", "\x1b[2J", "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\", "\x1b[8m", "\u2028"]
    raw = " ".join(evil)
    steps = [{"stdout": f"{raw}\n"}, *WORK[:2], {"text": f"Done. {raw}"}]
    task = world.do(world.brief("bytes", f"{script({'steps': steps})}", title="Escapes"))
    stdout = (Path(world.attempts(task)[0]["folder"]) / "stdout").read_bytes()
    assert raw.encode() in stdout
    environment = {**world.environment, "TERM": "xterm-256color", "COLUMNS": "100"}
    for words in (("show", str(task)), ("log",), ("tail", str(task)), ("tail", str(task), "--raw"), ("status",)):
        said = on_terminal(world.command(*words), environment)
        assert said.strip(), words
        assert not [text for text in (*evil, "\x1b]", "\x07") if text in said], words
