"""Every way an attempt ends, with real processes. Who is left is counted by a walk of /proc that knows neither the
supervisor's tree nor its marker rules."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatcher.errors import StoreError
from dispatcher.supervisor import attempt_files, client, forks, processes, spec
from dispatcher.task import EndReason, ExitRecord, OutcomeClass
from tests.supervisor.support import PYTHON, Attempt, same_process, until, walk

# The hiding places of a worker's children. Each one says in a file that it is there.
CHILD = "sh -c 'echo > $F/child-{0}; exec sleep 1000' $TOKEN"
FAMILY = """
sh -c 'echo > $F/child-plain; sleep 1000; :' $TOKEN &
setsid sh -c 'echo > $F/child-setsid; sleep 1000; :' $TOKEN &
nohup sh -c 'echo > $F/child-nohup; sleep 1000; :' $TOKEN >/dev/null 2>&1 &
(setsid sh -c '(sh -c "echo > $F/child-fork; sleep 1000; :" $TOKEN &) ' $TOKEN &)
env -i PATH=$PATH F=$F TOKEN=$TOKEN setsid sh -c '(sh -c "echo > $F/child-env; sleep 1000; :" $TOKEN &)' $TOKEN &
sh -c 'trap "" TERM; echo > $F/child-deaf; while :; do sleep 1; done' $TOKEN &
for c in plain setsid nohup fork env deaf; do until [ -e $F/child-$c ]; do sleep 0.02; done; done
"""
FAMILY_AND_READY = FAMILY + "echo up > $F/ready\n"


def assert_dead(attempt: Attempt, record: ExitRecord) -> None:
    assert attempt.alive() == []
    assert record.survivors == 0
    assert not spec.alive(attempt.folder)


def test_a_plain_end(attempt: Attempt) -> None:
    record = attempt.run("cat; echo err >&2; exit 7")
    assert (record.reason, record.exit_code, record.signal, record.timed_out) == (EndReason.EXITED, 7, None, False)
    assert (attempt.text("stdout"), attempt.text("stderr")) == ("the brief\n", "err\n")
    assert (record.kind, record.ended_processes, record.notes) == (None, (), ())
    assert record.marker == attempt.marker
    assert record.started_at <= record.ended_at
    assert not (attempt.folder / "supervisor.log").read_text()
    assert_dead(attempt, record)


def test_killed_by_a_signal_that_was_not_ours(attempt: Attempt) -> None:
    record = attempt.run("kill -9 $$")
    assert (record.reason, record.exit_code, record.signal) == (EndReason.EXITED, None, 9)


def test_what_the_worker_is_given(attempt: Attempt) -> None:
    """Own session, no terminal, its files and nothing else open, default signals, exactly the environment."""
    script = """
import json, os, signal, sys
try:
    os.open("/dev/tty", os.O_RDWR); tty = True
except OSError:
    tty = False
flags = [int(open(f"/proc/self/fdinfo/{n}").read().split("flags:")[1].split()[0], 8) for n in (1, 2)]
print(json.dumps(dict(
    session=os.getsid(0) == os.getpid(), tty=tty, stdin=sys.stdin.read(), append=[bool(f & os.O_APPEND) for f in flags],
    fds=sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")),
    pipe=signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL, hup=signal.getsignal(signal.SIGHUP) is signal.SIG_DFL,
    mask=[int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])], cwd=os.getcwd(), env=dict(os.environ),
)))
"""
    import json

    attempt.write((PYTHON, "-I", "-S", "-X", "utf8", "-c", script), unset=("SECRET_OF_OURS",))
    attempt.launch({"LC_ALL": "C", "SECRET_OF_OURS": "x"})
    attempt.wait()
    told = json.loads(attempt.text())
    environment = told.pop("env")
    assert told == {
        "session": True,
        "tty": False,
        "stdin": "the brief\n",
        "append": [True, True],
        "fds": [0, 1, 2],
        "pipe": False,  # Python ignores it in itself
        "hup": True,
        "mask": [],
        "cwd": str(attempt.folder),
    }
    assert environment == {**attempt.environment, "LC_ALL": "C", "DISPATCHER_ATTEMPT": attempt.marker}


def test_the_c_locale_adds_nothing_to_the_workers_environment(attempt: Attempt) -> None:
    attempt.write(("/usr/bin/env",))
    attempt.launch_with({"A": "1"})
    attempt.wait()
    assert sorted(attempt.text().split()) == ["A=1", f"DISPATCHER_ATTEMPT={attempt.marker}"]


def test_secrets_of_the_environment_touch_no_disk(attempt: Attempt) -> None:
    attempt.write("exit 0")
    attempt.launch({"SOME_API_KEY": "very-secret-value"})
    attempt.wait()
    assert not [p for p in attempt.folder.rglob("*") if b"very-secret-value" in p.read_bytes()]


@pytest.mark.parametrize(
    ("argv", "cwd", "kind", "words"),
    [
        (("/no/such/program",), None, OutcomeClass.HARNESS_MISSING, "/no/such/program cannot be started: No such file"),
        (("/etc/passwd",), None, OutcomeClass.HARNESS_MISSING, "/etc/passwd cannot be started: Permission denied"),
        (("/bin/true", "x" * 200_000), None, OutcomeClass.BRIEF_TOO_LARGE, "Argument list too long"),
        (("/bin/true",), "/no/such/folder", None, "the working folder /no/such/folder cannot be entered"),
    ],
)
def test_a_worker_that_cannot_be_started(
    attempt: Attempt, argv: tuple[str, ...], cwd: str | None, kind: OutcomeClass | None, words: str
) -> None:
    record = attempt.run(argv, **({} if cwd is None else {"cwd": cwd}))
    assert (record.reason, record.kind, record.exit_code) == (EndReason.SPAWN_FAILED, kind, None)
    assert words in record.detail
    assert_dead(attempt, record)


def test_exit_127_of_the_worker_is_not_a_missing_harness(attempt: Attempt) -> None:
    record = attempt.run("no-such-command-in-the-worker")
    assert (record.reason, record.exit_code, record.kind) == (EndReason.EXITED, 127, None)


TELLS_OF_FAILED_STARTS = """
import sys; sys.path.insert(0, {root!r})
from dispatcher.supervisor import supervise
real = supervise.spawn
def spawn(*args, **named):
    try:
        return real(*args, **named)
    except supervise.SpawnError:
        open(sys.argv[1] + "/failed", "a").write("once\\n")
        raise
supervise.spawn = spawn
sys.exit(supervise.main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
"""


def test_a_program_that_replaces_itself_is_tried_again(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first try fails; the program appears while the supervisor waits for its second."""
    entry = tmp_path / "supervisor" / "__main__.py"
    entry.parent.mkdir()
    entry.write_text(TELLS_OF_FAILED_STARTS.format(root=str(Path(spec.__file__).parents[2])))
    monkeypatch.setattr(forks, "PROGRAM", str(entry))
    program = attempt.folder / "updating"
    attempt.write((str(program), attempt.token))
    attempt.launch()
    attempt.ready("failed")
    new = attempt.folder / "new"
    new.write_text("#!/bin/sh\necho updated\n")
    new.chmod(0o755)
    new.rename(program)
    record = attempt.wait()
    assert (record.reason, record.exit_code) == (EndReason.EXITED, 0)
    assert (attempt.text(), attempt.text("failed")) == ("updated\n", "once\n")


@pytest.mark.parametrize("grouped", [True, False], ids=["control group", "no control group"])
def test_nothing_survives_a_normal_end(
    attempt: Attempt, grouped: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launch_without_groups(monkeypatch, tmp_path, grouped)
    record = attempt.run(FAMILY + "exit 0")
    assert (record.reason, record.exit_code) == (EndReason.EXITED, 0)
    assert len(record.ended_processes) >= 6
    assert_dead(attempt, record)


@pytest.mark.parametrize("grouped", [True, False], ids=["control group", "no control group"])
def test_nothing_survives_the_hard_cap(
    attempt: Attempt, grouped: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launch_without_groups(monkeypatch, tmp_path, grouped)
    attempt.write(FAMILY_AND_READY + "exec sleep 1000", hard_cap=3.0, grace=0.3)
    attempt.launch()
    attempt.ready()
    assert len(attempt.alive()) >= 7
    record = attempt.wait()
    assert (record.reason, record.kind, record.timed_out) == (EndReason.HARD_CAP, OutcomeClass.TIMED_OUT, True)
    assert record.signal == signal.SIGTERM
    assert_dead(attempt, record)


def launch_without_groups(monkeypatch: pytest.MonkeyPatch, folder: Path, grouped: bool) -> None:
    """Without: a copy of the entry point that finds no control group."""
    if grouped:
        return
    program = folder / "supervisor" / "__main__.py"
    program.parent.mkdir()
    program.write_text(
        f"import sys; sys.path.insert(0, {str(Path(spec.__file__).parents[2])!r})\n"
        "from dispatcher.supervisor import cgroup, supervise\n"
        "cgroup.create = lambda marker: None\n"
        "sys.exit(supervise.main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))\n"
    )
    monkeypatch.setattr(forks, "PROGRAM", str(program))
    monkeypatch.setattr("dispatcher.supervisor.cgroup.find", lambda marker: None)


def test_a_worker_may_clean_up_before_it_is_killed(attempt: Attempt) -> None:
    script = """
import os, signal, sys, time
def clean(*_):
    print("cleaned")
    sys.exit(5)
signal.signal(signal.SIGTERM, clean)
with open(os.environ["F"] + "/ready", "w") as file:
    file.write("up\\n")
while True:
    time.sleep(0.1)
"""
    attempt.write((PYTHON, "-c", script, attempt.token), grace=30.0)
    attempt.launch()
    attempt.ready()
    client.send(attempt.folder, {"do": "cancel", "by": "ada"})
    record = attempt.wait()
    assert (record.reason, record.kind) == (EndReason.CANCELLED, OutcomeClass.CANCELLED)
    assert (record.exit_code, record.detail) == (5, "cancelled by ada")
    assert attempt.text() == "cleaned\n"
    assert_dead(attempt, record)


def test_a_worker_that_ignores_term_is_killed_after_the_grace(attempt: Attempt) -> None:
    attempt.write("trap '' TERM; echo up > $F/ready; while :; do sleep 0.1; done", grace=0.3)
    attempt.launch()
    attempt.ready()
    client.send(attempt.folder, {"do": "cancel"})
    record = attempt.wait()
    assert (record.reason, record.signal) == (EndReason.CANCELLED, signal.SIGKILL)
    assert_dead(attempt, record)


def test_a_shell_wrapper_dies_with_what_it_wraps(attempt: Attempt) -> None:
    wrapper = attempt.folder / "shim"
    wrapper.write_text("#!/bin/sh\nsh -c 'echo up > $F/ready; sleep 1000; :' $TOKEN\n")
    wrapper.chmod(0o755)
    attempt.write((str(wrapper), attempt.token), grace=2.0)
    attempt.launch()
    attempt.ready()
    client.send(attempt.folder, {"do": "cancel"})
    assert_dead(attempt, attempt.wait())


def test_cancelled_before_the_start(attempt: Attempt) -> None:
    attempt.write("echo ran > $F/ran")
    client.send(attempt.folder, {"do": "cancel", "by": "ada"})
    attempt.launch()
    assert attempt.wait().reason is EndReason.CANCELLED
    assert not (attempt.folder / "ran").exists()


def test_garbage_in_control_is_ignored(attempt: Attempt) -> None:
    attempt.write("until [ -e $F/go ]; do sleep 0.02; done")
    (attempt.folder / "control").write_bytes(b'\xff\xfe\n[]\n{"do": "dance"}\n{"do"\n')
    attempt.launch()
    until(lambda: (attempt.folder / "stdout").exists())
    (attempt.folder / "go").touch()
    assert attempt.wait().reason is EndReason.EXITED


@pytest.mark.parametrize("how", ["message", "signal"])
def test_told_to_stop_is_nobodys_failure(attempt: Attempt, how: str) -> None:
    attempt.write(FAMILY_AND_READY + "exec sleep 1000", grace=0.3)
    process = attempt.launch()
    attempt.ready()
    if how == "message":
        client.send(attempt.folder, {"do": "stop", "by": "ctrl-c"})
    else:
        process.terminate()
    record = attempt.wait()
    assert (record.reason, record.kind) == (EndReason.STOPPED, OutcomeClass.STOPPED)
    assert_dead(attempt, record)


def test_a_supervisor_is_told_to_stop_where_nothing_can_be_written(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: open or write of `control` fails, or takes a part only."""
    attempt.write(FAMILY_AND_READY + "exec sleep 1000", grace=0.3)
    attempt.launch()
    attempt.ready()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda _fd, data: len(data) - 1)
        client.send(attempt.folder, {"do": "stop", "by": "ctrl-c"})
    record = attempt.wait()
    assert (record.reason, record.kind) == (EndReason.STOPPED, OutcomeClass.STOPPED)
    assert_dead(attempt, record)
    (attempt.folder / "control").unlink(missing_ok=True)
    (attempt.folder / "control").mkdir()
    client.send(attempt.folder, {"do": "stop", "by": "ctrl-c"})  # nobody is there to be told


def test_a_process_that_took_the_number_of_a_supervisor_is_not_signalled(attempt: Attempt) -> None:
    attempt.write("exit 0")
    (attempt.folder / "control").mkdir()
    lock = attempt_files.take_lock(str(attempt.folder / "attempt.lock"))
    assert lock is not None
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            start = int(same_process(stranger.pid))
            holder = {"supervisor": [stranger.pid, start - 1], "boot": processes.boot_id()}
            os.write(lock, json.dumps(holder).encode())
            with pytest.raises(StoreError, match="cannot be told"):
                client.send(attempt.folder, {"do": "stop", "by": "ctrl-c"})
            assert stranger.poll() is None
        finally:
            os.close(lock)
            stranger.kill()


def test_a_daemon_of_somebody_else_is_not_touched(attempt: Attempt) -> None:
    """It was there before, it even carries the attempt's marker, and a worker looks like its parent by name."""
    environment = {**attempt.environment, "DISPATCHER_ATTEMPT": attempt.marker}
    with subprocess.Popen(["sleep", "1000"], env=environment) as daemon:
        try:
            before = same_process(daemon.pid)
            attempt.write("sh -c 'sleep 1000' $TOKEN & echo up > $F/ready; exec sleep 1000", grace=0.3)
            attempt.launch()
            attempt.ready()
            client.send(attempt.folder, {"do": "cancel"})
            assert attempt.wait().survivors == 0
            assert attempt.alive() == [daemon.pid]
            assert same_process(daemon.pid) == before
            assert daemon.poll() is None
        finally:
            daemon.kill()


def test_a_named_daemon_is_left_and_listed(attempt: Attempt) -> None:
    daemon = attempt.folder / "buildd"
    daemon.symlink_to("/bin/sleep")
    script = FAMILY + "setsid $F/buildd 1000 & until pgrep -f $F/buildd; do sleep 0.02; done; exit 0"
    record = attempt.run(script, keep_daemons=("buildd",))
    left = walk(str(daemon))
    try:
        assert len(left) == 1
        assert record.survivors == 0
        assert f"left running (keep_daemons): {left[0]} buildd" in record.notes
        assert attempt.alive() == left
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not walk(str(daemon)))
    client.end_leftovers(attempt.folder)  # takes the empty group away


def test_a_child_that_holds_stdout_delays_nothing(attempt: Attempt) -> None:
    record = attempt.run(
        "setsid sh -c 'echo > $F/child; sleep 1000' $TOKEN & until [ -e $F/child ]; do :; done; echo done"
    )
    assert (record.reason, record.exit_code) == (EndReason.EXITED, 0)
    assert attempt.text() == "done\n"
    assert_dead(attempt, record)


def test_a_worker_that_forks_while_it_is_ended(attempt: Attempt) -> None:
    script = """
        spawn() { setsid sh -c 'trap "" TERM; echo > $F/ready; sleep 1000; :' $TOKEN & }
        trap spawn TERM
        while :; do spawn; sleep 0.05; done
    """
    attempt.write(script, grace=0.5)
    attempt.launch()
    until(lambda: (attempt.folder / "ready").exists())
    client.send(attempt.folder, {"do": "cancel"})
    assert_dead(attempt, attempt.wait())


def test_the_worker_never_inherits_the_lock(attempt: Attempt) -> None:
    """A child that outlives everything must not make the attempt look alive."""
    attempt.write("setsid sh -c 'echo up > $F/ready; sleep 1000; :' $TOKEN & sleep 1000")
    process = attempt.launch()
    attempt.ready()
    process.kill()
    process.wait()
    assert attempt.alive()
    assert not spec.alive(attempt.folder)
    assert client.end_leftovers(attempt.folder) >= 2


def test_an_attempt_is_never_run_twice(attempt: Attempt) -> None:
    attempt.run("echo x >> $F/runs")
    assert attempt.launch().wait() == 3
    assert attempt.text("runs") == "x\n"


def test_a_stall_and_a_busy_tool(make_attempt: Callable[[], Attempt]) -> None:
    """Both are silent. One sleeps; the other works, and is left alone until it has finished."""
    idle, busy = make_attempt(), make_attempt()
    limits = {"stall": 1.0, "grace": 0.3}
    idle.write("echo up; exec sleep 1000", **limits)
    loop = "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass\nprint('done')"
    busy.write((PYTHON, "-c", loop, busy.token), **limits)
    idle.launch()
    busy.launch()
    stalled, finished = idle.wait(), busy.wait()
    assert (stalled.reason, stalled.kind, stalled.timed_out) == (EndReason.STALLED, OutcomeClass.STALLED, True)
    assert (finished.reason, busy.text()) == (EndReason.EXITED, "done\n")
    assert_dead(idle, stalled)


def test_silence_from_the_start(attempt: Attempt) -> None:
    record = attempt.run(("sleep", "1000"), start=0.5, grace=0.3)
    assert (record.reason, record.kind) == (EndReason.START_SILENCE, OutcomeClass.STALLED)


def test_big_output_is_capped_while_it_is_written(attempt: Attempt) -> None:
    """200 MB in all; head and tail stay, and the record says so."""
    script = """
import os, sys
line = b'{"type": "text", "text": "' + b"x" * 970 + b'"}\\n'
os.write(1, b"first\\n")
for _ in range(200):
    os.write(1, line * 1000)
os.write(1, b"last\\n")
"""
    record = attempt.run((PYTHON, "-c", script), log_bytes=4 * 1024 * 1024)
    from dispatcher.supervisor import transcript

    path = attempt.folder / "stdout"
    assert record.reason is EndReason.EXITED
    assert path.stat().st_size > 190_000_000
    assert path.stat().st_blocks * 512 <= 4 * 1024 * 1024
    lines = list(transcript.lines(path))
    assert (lines[0], lines[-1]) == (b"first", b"last")
    assert any("stdout" in note and "dropped" in note for note in record.notes)


def test_the_supervisor_imports_nothing_heavy() -> None:
    """Each of these costs more than starting the worker. Translators come later, when the worker runs."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(spec.__file__).parents[2])!r})\n"
        "from dispatcher.supervisor import kernel, supervise; kernel.become_subreaper()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    heavy = {"dataclasses", "enum", "re", "json", "subprocess", "typing", "signal", "contextlib", "dispatcher.task"}
    assert not heavy & set(done.stdout.split())
