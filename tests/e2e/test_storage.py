"""Disk full, database damaged, ten first starts, a clock that jumps: right results, clear words, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dispatcher import store
from tests.e2e.test_crash import half_done
from tests.e2e.world import World, gate, marked, script, scripted_world, until
from tests.store.test_schema import old_database

WORK = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path, limits={"min_free_disk": "1KiB"})
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.fixture
def small_disk(world: World) -> Iterator[Path]:
    """The folder of the database and the logs, on a disk of its own."""
    if os.getuid() != 0:
        pytest.skip("a small file system of its own needs root")
    logs = world.home / "logs"
    logs.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(logs)], check=True)
    try:
        yield logs
    finally:
        subprocess.run(["umount", "--lazy", str(logs)], check=True)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """The disk of this folder, full to the last byte; what is freed meanwhile is taken at once."""
    filler, over = folder / "filler", threading.Event()

    def eat() -> None:
        with filler.open("wb", buffering=0) as file:
            while not over.is_set():
                for size in (1024 * 1024, 4096, 1):
                    with suppress(OSError):
                        while file.write(b"\0" * size) == size:
                            pass
                filled.set()
                over.wait(0.001)

    filled = threading.Event()
    eater = threading.Thread(target=eat)
    eater.start()
    filled.wait()
    try:
        yield
    finally:
        over.set()
        eater.join()
        filler.unlink()


def test_a_disk_that_fills_while_a_task_runs(world: World, small_disk: Path) -> None:
    """The worker has ended well, and that cannot be written down: its work stays, nothing new is started, the run ends
    with one clear line. With space again the result comes from the attempt folder; no worker runs twice."""
    reached, go = world.root / "reached", world.root / "go"
    check = f"touch {reached}; until [ -e {go} ]; do sleep 0.1; done"
    first = world.add(world.brief("full", script({"steps": WORK}), verify=[check]))
    second = world.add(world.brief("later", "Later.\n" + script({"steps": WORK})))
    run = world.start("run", "-j", "1")
    until(reached.exists, "the checks")
    with full(small_disk):
        go.touch()
        assert run.wait(120) == 2, (world.root / "run.out").read_text()
        said = (world.root / "run.out").read_text()
        assert "error: the database" in said
        assert "the disk is full" in said
        assert "hint: free some space" in said
        assert len(said.splitlines()) < 12, "a loop"
        assert world.git("log", "--format=%s", "-1", cwd=next(world.user_home.rglob("*/work"))) == "the work"
        again = world.run("run")
        assert again.returncode == 2, "still full"
        assert "the disk is full" in again.stderr or "No space left" in again.stderr

    assert world.task(first)["status"] == "running"
    assert [a["ended_at"] for a in world.attempts(first)] == [None]
    assert world.attempts(second) == []
    assert world.run("run").returncode == 0
    assert [a["outcome"] for a in world.attempts(first)] == ["completed"], world.story(first)
    assert world.task(first)["status"] == world.task(second)["status"] == "needs_review"
    assert world.branch_log(first) == ["the work"]
    assert world.rows("pragma integrity_check") == [{"integrity_check": "ok"}]


def test_a_run_that_is_told_to_end_while_the_disk_is_full(world: World, small_disk: Path) -> None:
    """Its worker is ended all the same, one line is said, and with space again the half is continued."""
    task, reached = half_done(world, 4329, "stopped")
    run = world.start("run")
    until(reached.exists, "the worker")
    with full(small_disk):
        run.terminate()
        assert run.wait(120) == 2, (world.root / "run.out").read_text()
        said = (world.root / "run.out").read_text()
        assert "the disk is full" in said
        assert "internal error" not in said
        assert marked("sleep\x004329") == []
    assert world.run("run").returncode == 0
    assert [(a["prompt"], a["outcome"]) for a in world.attempts(task)] == [
        ("first", "stopped"),
        ("continue", "completed"),
    ], world.story(task)
    assert world.task(task)["status"] == "needs_review"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_a_run_whose_own_log_is_on_a_full_disk(world: World) -> None:
    """No task suffers for it: its steps are said to nobody, and only at the end is it told that the report was lost."""
    task = world.add(world.brief("unheard", script({"steps": WORK})))
    with Path("/dev/full").open("wb") as log:  # written to, never named to a program
        done = subprocess.run(world.command("run"), env=world.environment, stdout=log, stderr=log, check=False)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert done.returncode == 2


def test_a_run_whose_messages_nobody_reads_any_more(world: World) -> None:
    task = world.add(world.brief("unheard", script({"steps": WORK})))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        world.command("run"), env=world.environment, stdout=subprocess.PIPE, stderr=writing, check=False
    )
    os.close(writing)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert done.returncode == 0


def test_a_disk_that_is_full_before_a_worker_starts(world: World, small_disk: Path) -> None:
    task = world.add(world.brief("full", script({"steps": WORK})))
    with full(small_disk):
        done = world.run("run")
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert "full" in done.stderr or "No space left" in done.stderr
    assert world.run("run").returncode == 0
    assert world.task(task)["status"] == "needs_review", world.story(task)


def test_a_home_that_cannot_be_written_can_be_looked_at(world: World) -> None:
    """A disk that was mounted read-only: looking works, and what would change something says why it does not."""
    world.add(world.brief("one", "Do it."))
    inside = ["unshare", "-m", "sh", "-c"]
    lock = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    if subprocess.run([*inside, lock, str(world.home), "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")

    def locked(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*inside, lock, str(world.home), *world.command(*words)]
        return subprocess.run(command, env=world.environment, capture_output=True, text=True, check=False)

    before = sorted(os.listdir(world.home / "logs"))
    for words in (["status"], ["log"], ["show", "1"], ["report"], ["export"], ["explain", "1"]):
        said = locked(*words)
        assert (said.returncode, said.stderr.count("error")) == (0, 0), (words, said.stderr)
        assert said.stdout
    for words in (["cancel", "1"], ["add", str(world.home / "briefs/one.md"), "--again"], ["run"]):
        said = locked(*words)
        assert said.returncode == 2, words
        assert "logs is not writable" in said.stderr
    assert sorted(os.listdir(world.home / "logs")) == before
    assert world.task(1)["status"] == "queued"


def test_a_database_of_garbage(world: World) -> None:
    """It is moved aside with its name told; no empty queue takes its place, now or at the next start."""
    task = world.add(world.brief("done", script({"steps": WORK})))
    world.run("run", check=True)
    copy = world.task(task)["copy_path"]
    file = world.home / "logs/dispatcher.db"
    for side in ("-wal", "-shm"):
        file.with_name(file.name + side).unlink(missing_ok=True)
    file.write_bytes(b"\0garbage" * 4096)
    first, second = world.run("run"), world.run("run")
    assert (first.returncode, second.returncode) == (2, 2)
    assert "is not a SQLite database; it was moved to" in first.stderr
    assert "hint:" in first.stderr
    assert "there is no database at" in second.stderr
    assert not file.exists()
    assert [path.read_bytes()[:8] for path in file.parent.glob("dispatcher.db.damaged-*")] == [b"\0garbage"]
    assert (Path(copy) / "a.txt").exists()


def test_ten_first_runs_at_once_on_an_old_schema(world: World) -> None:
    task = world.add(world.brief("one", script({"steps": WORK})))
    file = world.home / "logs/dispatcher.db"
    with store.open(file) as db:
        row = dict(db.read("select brief_text, brief_digest from task where id = ?", (task,))[0])
    for path in file.parent.glob("dispatcher.db*"):
        path.unlink()
    old_database(file)
    started = [world.start("run") for _ in range(10)]
    codes = [process.wait(120) for process in started]
    said = (world.root / "run.out").read_text()
    assert set(codes) <= {0, 1}, said
    assert "damaged" not in said
    assert "Traceback" not in said
    assert world.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
    world.run("add", str(world.home / "briefs/one.md"), check=True)
    found = world.rows("select id from task where brief_digest = ?", row["brief_digest"])
    world.run("run")
    assert world.task(found[0]["id"])["status"] == "needs_review", world.story(found[0]["id"])


SHIFT = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    char text[32] = {0};
    const char *path = getenv("CLOCK_SHIFT");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    if (read(fd, text, sizeof text - 1) < 0) text[0] = 0;
    close(fd);
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="a wall clock of its own needs a C compiler")
def test_a_clock_that_jumps_while_a_worker_runs(world: World) -> None:
    """The wall clock of the run, the supervisor and the worker goes 8 hours ahead, and back again for the next run. No
    limit counts the jump, a hold that is over by the new time is over, and the log says what the clock did."""
    library, shift = world.root / "shift.so", world.root / "shift"
    source = library.with_suffix(".c")
    source.write_text(SHIFT)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    shift.write_text("0")
    world.extra_config = "environment: {pass: [LD_PRELOAD, CLOCK_SHIFT]}\n"
    world.write_config()
    shifted = {**world.environment, "LD_PRELOAD": str(library), "CLOCK_SHIFT": str(shift)}

    limit = {"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}
    held = world.add(world.brief("held", script({"times": 1, "steps": [limit]}, {"steps": WORK}), candidates=["third"]))
    assert world.run("run", env=shifted).returncode == 75, world.story(held)
    reached, wait = gate(world.root)
    steps = [wait, {"sleep": 1}, *WORK]
    limits = {"hard_cap": "10m", "stall": "5m", "start": "5m"}
    task = world.add(world.brief("jump", script({"steps": steps}), limits=limits, candidates=["first"]))
    with (world.root / "run.out").open("ab") as out:
        run = subprocess.Popen(world.command("run"), env=shifted, stdin=-3, stdout=out, stderr=out, cwd=world.root)
    try:
        until(reached.exists, "the worker")
        shift.write_text(str(8 * 3600))
        (world.root / "go").write_text("\n")
        assert run.wait(120) == 0, (world.root / "run.out").read_text()
    finally:
        run.kill()
        run.wait()
    [attempt] = world.attempts(task)
    assert (attempt["outcome"], attempt["end_reason"], attempt["timed_out"]) == ("completed", "exited", 0)
    assert attempt["ended_at"] - attempt["started_at"] > 8 * 3600, "the clock did jump"
    assert attempt["seconds"] < 600
    assert "the machine slept for 288" in attempt["notes"], attempt["notes"]
    assert [a["outcome"] for a in world.attempts(held)] == ["rate_limited", "completed"], world.story(held)
    assert {world.task(one)["status"] for one in (held, task)} == {"needs_review"}

    shift.write_text("0")
    back = world.add(world.brief("back", script({"steps": WORK}), candidates=["first"]))
    assert world.run("run", env=shifted).returncode == 0
    assert world.task(back)["status"] == "needs_review", world.story(back)


def test_a_clock_that_jumps_eight_hours(world: World) -> None:
    """Between two runs: a wait ends where the wall clock says, and nobody is punished for it."""
    limit = {"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}
    rules = [{"times": 1, "model": f"scripted/s{n}", "steps": [limit]} for n in (1, 2, 3)]
    task = world.add(world.brief("jump", script(*rules, {"steps": WORK})))
    limited = world.run("run")
    assert limited.returncode == 75, (limited.stderr, world.story(task))
    with store.open(world.home / "logs/dispatcher.db") as db, db.write() as transaction:
        for table, column in (("task", "not_before"), ("hold", "until"), ("hold", "created_at")):
            transaction.execute(f"update {table} set {column} = {column} - 28800 where {column} is not null")
        transaction.execute("update attempt set started_at = started_at - 28800, ended_at = ended_at - 28800")
    assert world.run("run").returncode == 0
    row = world.task(task)
    assert row["status"] == "needs_review", world.story(task)
    assert json.loads(row["counters"])["attempts"] == 0
    assert all(attempt["timed_out"] == 0 for attempt in world.attempts(task))
    assert time.time() - row["updated_at"] < 600


def test_a_run_that_may_open_few_files_does_not_begin(world: World) -> None:
    """It would break in the middle of something; the task is left for a run that may."""
    task = world.add(world.brief("few", script({"steps": WORK})))
    command = f"ulimit -n 20; exec {shlex.join(world.command('run'))}"
    ran = subprocess.run(["sh", "-c", command], env=world.environment, cwd=world.root, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: a run may open only 20 files here\nhint: raise the limit: ulimit -n 1024\n",
    )
    assert world.task(task)["status"] == "queued"
    assert world.run("run").returncode == 0, world.story(task)
