"""Any of the processes is killed with -9, and the attempt is settled all the same."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from dispatcher.supervisor import cgroup, client, spec
from dispatcher.task import EndReason
from tests.supervisor.support import PYTHON, ROOT, Attempt, same_process, until
from tests.supervisor.test_endings import FAMILY_AND_READY, launch_without_groups

DISPATCHER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from dispatcher.supervisor import client
process = client.launch(Path(sys.argv[2]), dict(os.environ))
print(process.pid, flush=True)
process.wait()
"""


def start_dispatcher(attempt: Attempt) -> tuple[subprocess.Popen[str], int]:
    """A process of its own that launches the attempt and waits for it; the pid of the supervisor."""
    argv = [PYTHON, "-c", DISPATCHER, str(ROOT), str(attempt.folder)]
    dispatcher = subprocess.Popen(argv, env=attempt.environment, stdout=subprocess.PIPE, text=True)
    assert dispatcher.stdout is not None
    return dispatcher, int(dispatcher.stdout.readline())


def kill_dispatcher(dispatcher: subprocess.Popen[str]) -> None:
    dispatcher.kill()
    dispatcher.wait()
    assert dispatcher.stdout is not None
    dispatcher.stdout.close()


def test_the_supervisor_alone_keeps_the_hard_cap(attempt: Attempt) -> None:
    attempt.write(FAMILY_AND_READY + "exec sleep 1000", hard_cap=3.0, grace=0.3)
    dispatcher, _ = start_dispatcher(attempt)
    attempt.ready()
    kill_dispatcher(dispatcher)
    assert spec.alive(attempt.folder)
    record = anyio.run(client.wait, attempt.folder, None)
    assert record is not None
    assert (record.reason, record.survivors) == (EndReason.HARD_CAP, 0)
    assert attempt.alive() == []


def test_a_cancel_reaches_a_worker_whose_dispatcher_is_dead(attempt: Attempt) -> None:
    attempt.write(FAMILY_AND_READY + "exec sleep 1000", grace=0.3)
    dispatcher, _ = start_dispatcher(attempt)
    attempt.ready()
    kill_dispatcher(dispatcher)
    client.send(attempt.folder, {"do": "cancel", "by": "ada"})
    record = anyio.run(client.wait, attempt.folder, None)
    assert record is not None
    assert (record.reason, attempt.alive()) == (EndReason.CANCELLED, [])


def test_there_is_no_moment_in_which_a_started_attempt_looks_dead(attempt: Attempt) -> None:
    """A second dispatcher looks right after the first one has started the supervisor and died."""
    attempt.write("echo up > $F/ready; sleep 1000", grace=0.3)
    process = attempt.launch()
    assert spec.alive(attempt.folder)
    assert client.end_leftovers(attempt.folder) == 0
    attempt.ready()
    process.terminate()
    attempt.wait()


@pytest.mark.parametrize("grouped", [True, False], ids=["control group", "no control group"])
def test_leftovers_of_a_killed_supervisor(
    attempt: Attempt, grouped: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a control group the daemon that threw its environment away is known by the output it still holds."""
    launch_without_groups(monkeypatch, tmp_path, grouped)
    attempt.write(FAMILY_AND_READY + "exec sleep 1000")
    process = attempt.launch()
    attempt.ready()
    before = attempt.alive()
    process.kill()
    process.wait()
    assert spec.read_exit(attempt.folder) is None
    assert set(attempt.alive()) == set(before) - {process.pid}
    ended = client.end_leftovers(attempt.folder)
    assert attempt.alive() == []
    assert ended >= 10  # a family of twelve or so; one of them forks all the time
    assert anyio.run(client.wait, attempt.folder, None) is None


def test_who_reads_the_output_is_no_leftover(attempt: Attempt) -> None:
    attempt.write("echo up > $F/ready; sleep 1000")
    process = attempt.launch()
    attempt.ready()
    with subprocess.Popen(["tail", "-f", str(attempt.folder / "stdout")], stdout=subprocess.DEVNULL) as reader:
        try:
            process.kill()
            process.wait()
            assert client.end_leftovers(attempt.folder) == 2
            assert reader.poll() is None
        finally:
            reader.kill()


def test_leftovers_spare_what_was_there_before(attempt: Attempt) -> None:
    with subprocess.Popen(["sleep", "1000"], env=attempt.environment) as stranger:
        try:
            attempt.write("setsid sleep 1000 & echo up > $F/ready; sleep 1000")
            process = attempt.launch()
            attempt.ready()
            process.kill()
            process.wait()
            before = same_process(stranger.pid)
            assert client.end_leftovers(attempt.folder) >= 2
            assert attempt.alive() == [stranger.pid]
            assert same_process(stranger.pid) == before
        finally:
            stranger.kill()


def test_pids_of_another_boot_mean_nothing(attempt: Attempt) -> None:
    """The lock names a live process of today, written before the machine was restarted."""
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            attempt.write("true")
            start = int(same_process(stranger.pid))
            (attempt.folder / "attempt.lock").write_text(
                f'{{"supervisor": [1, 1], "leader": [{stranger.pid}, {start}], "group": null, "boot": "another"}}'
            )
            assert client.end_leftovers(attempt.folder) == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_killed_before_it_wrote_anything(attempt: Attempt) -> None:
    attempt.write("true")
    (attempt.folder / "attempt.lock").touch()
    assert not spec.alive(attempt.folder)
    assert client.end_leftovers(attempt.folder) == 0
    assert anyio.run(client.wait, attempt.folder, None) is None


def test_waiting_can_be_cancelled_and_taken_up_again(attempt: Attempt) -> None:
    attempt.write("until [ -e $F/go ]; do sleep 0.02; done; exit 4")
    process = attempt.launch()

    async def story() -> None:
        with anyio.move_on_after(0.3) as scope:
            await client.wait(attempt.folder, process)
        assert scope.cancelled_caught
        assert spec.alive(attempt.folder)
        (attempt.folder / "go").touch()
        record = await client.wait(attempt.folder, process)
        assert record is not None
        assert record.exit_code == 4

    descriptors = len(os.listdir("/proc/self/fd"))
    anyio.run(story)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_wait_works_without_pidfd(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert attempt.run("exit 3").exit_code == 3


def test_a_closed_terminal_does_not_end_the_supervisor(attempt: Attempt) -> None:
    attempt.write("echo up > $F/ready; until [ -e $F/go ]; do sleep 0.02; done")
    process = attempt.launch()
    attempt.ready()
    process.send_signal(signal.SIGHUP)
    (attempt.folder / "go").touch()
    record = attempt.wait()
    assert (record.reason, record.exit_code) == (EndReason.EXITED, 0)


def test_many_at_once(make_attempt: Callable[[], Attempt]) -> None:
    made = [make_attempt() for _ in range(8)]
    for number, attempt in enumerate(made):
        attempt.write(f"sleep 1000 & exit {number}")
        attempt.launch()
    assert [attempt.wait().exit_code for attempt in made] == list(range(8))
    until(lambda: not any(attempt.alive() for attempt in made))


def test_a_broken_attempt_file_is_reported_and_starts_nothing(attempt: Attempt) -> None:
    attempt.write("echo ran > $F/ran")
    (attempt.folder / "attempt.json").write_text("{")
    process = attempt.launch()
    assert process.wait() != 0
    assert "ValueError" in attempt.text("supervisor.log")
    assert not (attempt.folder / "ran").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="a small file system of its own needs root")
def test_a_full_disk_does_not_swallow_the_record(attempt: Attempt) -> None:
    """The worker fills the disk that its own attempt folder lies on. The record's space was set aside before."""
    small = attempt.folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        inner = Attempt(small / "attempt")
        inner.write("head -c 8000000 /dev/zero; echo full > $F/full; exit 9", log_bytes=0)
        inner.launch()
        record = inner.wait()
        assert (record.reason, record.exit_code) == (EndReason.EXITED, 9)
        assert os.statvfs(small).f_bavail * 4096 < 100_000
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_stopped_while_it_clears_up(attempt: Attempt) -> None:
    """The worker has ended by itself; a SIGTERM in the sweep changes nothing about that."""
    attempt.write(
        "sh -c 'trap \"echo term >> $F/termed\" TERM; echo up > $F/ready; while :; do sleep 0.05; done' $TOKEN &"
        "until [ -e $F/ready ]; do sleep 0.02; done; exit 6"
    )
    process = attempt.launch()
    attempt.ready("termed")
    process.terminate()
    record = attempt.wait()
    assert (record.reason, record.exit_code, record.survivors) == (EndReason.EXITED, 6, 0)


def test_killed_before_it_could_say_what_it_started(attempt: Attempt) -> None:
    """The lock is empty, as if the kill had come between the fork and the note of it: the group is found by its name,
    and with it a daemon that nothing else would tell."""
    attempt.write("env -i PATH=$PATH setsid sleep 1000 >/dev/null 2>&1 & echo up > $F/ready; sleep 1000")
    process = attempt.launch()
    attempt.ready()
    process.kill()
    process.wait()
    os.truncate(attempt.folder / "attempt.lock", 0)
    group = cgroup.find(attempt.marker)
    assert client.end_leftovers(attempt.folder) >= (2 if group is None else 3)
    assert attempt.alive() == []
    assert group is None or not Path(group.path).exists()
