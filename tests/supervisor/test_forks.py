"""Supervisors that a warm process forks: the same as fresh ones for the worker, and nothing hangs on that process."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from dispatcher.supervisor import attempt_files, client, forks, spec
from dispatcher.supervisor.forks import Forked, ForkServer
from dispatcher.task import EndReason, ExitRecord
from tests.supervisor.support import PYTHON, Attempt, until, walk
from tests.supervisor.test_endings import FAMILY_AND_READY

TELLS = """
import json, os, signal, sys
print(json.dumps(dict(
    session=os.getsid(0) == os.getpid(), parents_session=os.getsid(os.getppid()) == os.getppid(),
    stdin=sys.stdin.read(), cwd=os.getcwd(), env=dict(os.environ),
    fds=sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")),
    signals=[n for n in range(1, 32) if n not in (9, 19) and signal.getsignal(n) is signal.SIG_IGN],
    mask=[int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
)))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    server = ForkServer(tmp_path / "logs")
    yield server
    server.close()
    assert walk(str(tmp_path / "logs")) == [], "a server or one of its supervisors was left behind"


def launch(server: ForkServer, attempt: Attempt, **more: str) -> Forked:
    launched = client.launch(attempt.folder, {**attempt.environment, **more}, server)
    assert isinstance(launched, Forked)
    return launched


def ended(attempt: Attempt, launched: client.Launched) -> ExitRecord:
    record = anyio.run(client.wait, attempt.folder, launched)
    assert record is not None, (attempt.folder / "supervisor.log").read_text()
    assert not spec.alive(attempt.folder)
    return record


def supervisor_of(attempt: Attempt) -> int:
    return int(attempt_files.read_holder(str(attempt.folder / "attempt.lock"))["supervisor"][0])


def server_of(server: ForkServer) -> int:
    assert server.process is not None
    return server.process.pid


def test_a_worker_sees_what_it_sees_under_a_fresh_one(server: ForkServer, attempt: Attempt) -> None:
    attempt.write((PYTHON, "-I", "-S", "-X", "utf8", "-c", TELLS), unset=("SECRET_OF_OURS",))
    odd = os.fsdecode(b"odd \xff bytes")
    record = ended(attempt, launch(server, attempt, SECRET_OF_OURS="x", ODD=odd, LARGE="x" * 100_000))
    assert (record.reason, record.exit_code) == (EndReason.EXITED, 0), attempt.text("stderr")
    told = json.loads(attempt.text())
    environment = told.pop("env")
    assert told == {
        "session": True,
        "parents_session": True,
        "stdin": "the brief\n",
        "cwd": str(attempt.folder),
        "fds": [0, 1, 2],
        "signals": [signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these in itself
        "mask": [],
    }
    expected = {**attempt.environment, "ODD": odd, "LARGE": "x" * 100_000, "DISPATCHER_ATTEMPT": attempt.marker}
    assert environment == expected
    assert (attempt.folder / "supervisor.log").read_bytes() == b""


def test_it_is_named_after_its_attempt_and_shows_no_key(server: ForkServer, attempt: Attempt) -> None:
    attempt.write("echo up > $F/ready; sleep 1000", grace=0.3)
    launched = launch(server, attempt, SOME_API_KEY="very-secret-value")
    attempt.ready()
    own = Path(f"/proc/{supervisor_of(attempt)}")
    assert (own / "comm").read_text().startswith("attempt ")
    assert b"very-secret-value" not in (own / "environ").read_bytes() + (own / "cmdline").read_bytes()
    client.send(attempt.folder, {"do": "cancel", "by": "ada"})
    assert ended(attempt, launched).reason is EndReason.CANCELLED


def test_many_at_once_from_several_threads(server: ForkServer, make_attempt: Callable[[], Attempt]) -> None:
    made = [make_attempt() for _ in range(12)]
    found: list[tuple[Attempt, Forked]] = []

    def one(attempt: Attempt) -> None:
        attempt.write(f"echo {attempt.token}; exit 3")
        found.append((attempt, launch(server, attempt)))

    threads = [threading.Thread(target=one, args=(attempt,)) for attempt in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {ended(attempt, launched).exit_code for attempt, launched in found} == {3}
    assert all(attempt.text().strip() == attempt.token for attempt in made)
    zombies = [pid for pid in children(server_of(server)) if state(pid) == "Z"]
    until(lambda: not [pid for pid in zombies if state(pid) == "Z"])


def test_supervisors_outlive_the_server_and_the_next_one_takes_its_place(
    server: ForkServer, make_attempt: Callable[[], Attempt]
) -> None:
    first, second = make_attempt(), make_attempt()
    first.write(FAMILY_AND_READY + "exec sleep 1000", grace=0.3)
    launched = launch(server, first)
    first.ready()
    killed = server_of(server)
    os.kill(killed, signal.SIGKILL)
    until(lambda: state(killed) == "Z")

    second.write("echo up > $F/ready; sleep 1000", grace=0.3)
    fresh = client.launch(second.folder, second.environment, server)
    assert not isinstance(fresh, Forked), "an interpreter of its own did it"
    second.ready()
    third = make_attempt()
    assert third.write("exit 0")
    assert ended(third, launch(server, third)).exit_code == 0
    assert server_of(server) != killed

    for attempt, process in ((first, launched), (second, fresh)):
        client.send(attempt.folder, {"do": "cancel", "by": "ada"})
        record = ended(attempt, process)
        assert (record.reason, record.survivors, attempt.alive()) == (EndReason.CANCELLED, 0, [])


def test_a_server_that_is_stopped_is_given_up_and_nothing_runs_twice(
    server: ForkServer, make_attempt: Callable[[], Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has heard may still happen, so nobody else does it: the lock says that nobody is at work."""
    monkeypatch.setattr(forks, "PATIENCE", 0.3)
    first, second = make_attempt(), make_attempt()
    first.write("exit 0")
    ended(first, launch(server, first))
    os.kill(server_of(server), signal.SIGSTOP)
    second.write("echo once >> $F/ran")
    assert client.launch(second.folder, second.environment, server) is None
    assert anyio.run(client.wait, second.folder, None) is None, "lost: it is tried again as a new attempt"
    assert not (second.folder / "ran").exists()


def test_a_server_that_cannot_start_is_done_without(
    server: ForkServer, attempt: Attempt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, broken = forks.PROGRAM, tmp_path / "broken.py"
    broken.write_text(
        f"import runpy, sys\n'--fork' in sys.argv and sys.exit(1)\nrunpy.run_path({real!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(forks, "PROGRAM", str(broken))
    attempt.write("exit 4")
    launched = client.launch(attempt.folder, attempt.environment, server)
    assert not isinstance(launched, Forked)
    assert launched is not None
    assert ended(attempt, launched).exit_code == 4


def test_where_no_process_can_be_made_the_attempt_says_so(
    server: ForkServer, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dispatcher.supervisor import forkserver

    said = iter([forkserver.READY, forkserver.REFUSED])
    monkeypatch.setattr(forkserver, "receive", lambda connection, size: (next(said), []))
    attempt.write("exit 0")
    with pytest.raises(OSError, match="Resource temporarily unavailable"):
        client.launch(attempt.folder, attempt.environment, server)
    until(lambda: not spec.alive(attempt.folder))


def test_it_ends_with_its_run(tmp_path: Path, attempt: Attempt) -> None:
    """kill -9 of the run: the server sees the end of its connection; the supervisor stays and does its work."""
    attempt.write("echo up > $F/ready; sleep 1000", grace=0.3)
    run = os.fork()
    if run == 0:
        launch(ForkServer(tmp_path / "logs"), attempt)
        signal.pause()
    attempt.ready()
    own = supervisor_of(attempt)
    os.kill(run, signal.SIGKILL)
    os.waitpid(run, 0)
    until(lambda: walk(str(tmp_path / "logs")) == [own])
    client.send(attempt.folder, {"do": "cancel", "by": "ada"})
    assert ended(attempt, None).reason is EndReason.CANCELLED


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state(pid: int) -> str:
    """`Z` for who is dead and not yet reaped, empty for who is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
