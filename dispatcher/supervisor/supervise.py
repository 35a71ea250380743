"""The life of one supervisor: lock, start the worker, watch, end the tree, write the exit record.

    run
     |-- _start    group, fork, exec                              -> spawn_failed
     |-- _watch    until the worker ends, a clock is due,
     |             a signal asks for the end, or `control` does
     |-- _end      the whole tree, counted
     `-- _record   exit.json

Everything is looked at on one tick; only the worker's end and signals to ourselves are noticed at once (SIGCHLD through
a pipe). The words for reasons and classes are those of `task.EndReason` and `task.OutcomeClass`, as text: importing
them costs more than starting the worker.
"""

from __future__ import annotations

import errno
import os
import select
import time

from dispatcher.supervisor import attempt_files as files
from dispatcher.supervisor import cgroup, kernel, plain_json, processes
from dispatcher.supervisor.activity import TOLERANCE, Activity
from dispatcher.supervisor.capping import Cap
from dispatcher.supervisor.clocks import Clocks
from dispatcher.supervisor.follow import Follower
from dispatcher.supervisor.spawn import SpawnError, spawn
from dispatcher.supervisor.tree import Ended, Tree, end

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Sequence
    from typing import Any

    from dispatcher.supervisor.gate import Gate
    from dispatcher.supervisor.held import Held
    from dispatcher.supervisor.listener import Listener
else:
    import _signal

TICK = 0.3  # seconds between two looks
SETTLE = 0.2  # a worker that lives longer than this is worth loading the translators for
BUDGET = 32 * 1024 * 1024  # bytes of one file read in one look
QUICK = 2.0  # grace of a worker that only sleeps on a limit
LEFTOVERS = 1.0  # grace of what a worker left behind after it ended by itself
DISK_PATIENCE = 600.0  # seconds to wait for disk space for the exit record
HARNESS_START = 1.0 + TOLERANCE  # seconds: what starts sooner after us is the harness itself, never a tool of its calls
HELD = 5.0  # seconds that a look excuses while a call waits for a person
PROOF = 120.0  # seconds until a gate must have proved to be active, where no start-up time is set
AGAIN = 1.0  # seconds until a program that was not there is tried once more: it may be replacing itself


class Reason:
    """Why the tree is ended, with what was seen."""

    def __init__(
        self, reason: str, detail: str, kind: str | None = None, hold: dict[str, object] | None = None
    ) -> None:
        self.reason = reason
        self.detail = detail
        self.kind = kind
        self.hold = hold


EXITED = Reason("exited", "")
CLOCK_WORDS = {
    "start_silence": ("stalled", "not a sign of life within the start-up time"),
    "stalled": ("stalled", "silent for too long, and nothing in its tree worked"),
    "hard_cap": ("timed_out", "the hard cap was reached"),
    "finished": (None, "it had given its result but did not exit"),
}


class Spec:
    """`spec.AttemptSpec` without its dataclass. The program may be upgraded while a dispatcher runs: what the older one
    did not write is None here, so that a field that comes later has to mean nothing when it is empty."""

    def __init__(self, values: dict[str, object]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        return None


class Supervisor:
    def __init__(self, folder: str, unset: Sequence[str] = ()) -> None:
        with open(f"{folder}/{files.ATTEMPT}", encoding="utf-8") as file:
            self.spec = Spec(plain_json.loads(file.read()))
        self.folder = folder
        self.started_at = time.time()
        self.pid = 0
        self.status: int | None = None  # of the worker, as waitpid gave it
        self.stop: Reason | None = None
        self.notes: list[str] = []
        self.listener: Listener | None = None
        self.gate: Gate | None = None
        self.held: Held | None = None  # the prompt, until it is given
        self.activity = Activity()
        self.call_began = 0.0
        self.environment = dict(os.environ)
        for name in (*unset, *self.spec.unset):
            self.environment.pop(name, None)
        self.environment[processes.MARKER] = self.spec.marker
        own = processes.get(os.getpid())
        self.own = (os.getpid(), own.start if own else 0)
        self.group = cgroup.create(self.spec.marker)
        self.tree = Tree(
            self.spec.marker,
            parent=os.getpid(),
            born=self.own[1],
            group=self.group,
            keep=self.spec.keep_daemons,
        )
        self.outputs = {name: Follower(f"{folder}/{name}") for name in (files.BRIDGE, files.STDOUT, files.STDERR)}
        self.caps = {name: Cap(f"{folder}/{name}", self.spec.log_bytes) for name in (files.STDOUT, files.STDERR)}
        self.control = Follower(f"{folder}/{files.CONTROL}")
        self.wake = _watch_signals()
        self.clocks = Clocks(
            start=self.spec.start,
            stall=self.spec.stall,
            hard_cap=self.spec.hard_cap,
            grace=self.spec.grace,
            mono=time.monotonic(),
            wall=time.time(),
            plain=self.spec.harness is None,
        )

    def run(self, lock: int) -> None:
        """`lock`: the open attempt.lock, still empty."""
        files.reserve(f"{self.folder}/{files.EXIT}")
        try:
            self._read_control()
            if self.stop is None and self.spec.gate:
                self._open_gate()
            if self.stop is None:
                self._start(lock)
            if self.stop is None:
                self._watch()
        except Exception as error:  # whatever it is: the tree must not outlive us, and the record must say why
            self.stop = Reason("supervisor_error", f"{type(error).__name__}: {error}")
        self._record(self._end())

    # --- start ----------------------------------------------------------------------------------------------------

    def _start(self, lock: int) -> None:
        self._sign(lock, None)
        try:
            self.pid = self._spawn()
        except SpawnError as error:
            self.stop = _spawn_failure(error, self.spec)
            return
        if self.held is not None:
            self.held.started()
        process = processes.get(self.pid)
        leader = (self.pid, process.start if process else 0)
        self.tree.lead(leader)
        self._sign(lock, leader)

    def _open_gate(self) -> None:
        """Before the worker is started: a sandbox shows it only what is there by then."""
        from dispatcher.supervisor.gate import Gate

        self.gate = Gate(self.spec.gate, self.folder, self.spec.cwd)
        self.wake.register(self.gate.listening.fileno(), select.POLLIN)
        if self.spec.held:
            from dispatcher.supervisor.held import Held

            self.held = Held(self.spec.stdin)

    def _sign(self, lock: int, leader: processes.Identity | None) -> None:
        """Say in the lock who we are and what we start, for those who may have to clean up after us."""
        holder = {
            "supervisor": self.own,
            "leader": leader,
            "group": self.group.path if self.group else None,
            "boot": processes.boot_id(),
        }
        try:
            os.pwrite(lock, plain_json.dumps(holder).encode(), 0)
        except OSError as error:  # a full disk: whoever comes after us has to find the tree without it
            self.notes.append(f"who runs this could not be written down: {error.strerror}")

    def _spawn(self) -> int:
        """The program may be missing for a moment while it updates itself; it is tried twice."""
        for last in (False, True):
            try:
                return spawn(
                    self.spec.argv,
                    self.environment,
                    cwd=self.spec.cwd,
                    stdin=self.held.path if self.held is not None else self.spec.stdin,
                    stdout=f"{self.folder}/{files.STDOUT}",
                    stderr=f"{self.folder}/{files.STDERR}",
                    group=self.group.path if self.group is not None else None,
                )
            except SpawnError as error:
                if last or error.stage != "program" or error.errno != errno.ENOENT:
                    raise
                self._rest(AGAIN)
        raise AssertionError("unreachable")

    # --- watch ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        born = time.monotonic()
        while not self._gone() and self.stop is None:
            self._pause(TICK)
            if self._gone():
                return
            self.clocks.advance(time.monotonic(), time.time())
            if self.listener is None and self.spec.harness is not None and time.monotonic() - born >= SETTLE:
                self._load_listener()
            if self.listener is not None or self.spec.harness is None:
                self._listen()
            self._read_control()
            self._attend_gate()
            self._sample()
            self._check_clocks()

    def _load_listener(self) -> None:
        from dispatcher.supervisor.lean import put_off_inspect

        put_off_inspect()
        from dispatcher.supervisor.listener import Listener

        self.listener = Listener(self.spec, self.notes)
        self.clocks.plain = self.listener.watch is None  # without a translator nothing tells of tools

    def _listen(self) -> bool:
        """Read what is new. The bridge first: what our plugin says about a call comes before the call's own event.
        True when there may be more."""
        more = False
        for name, follower in self.outputs.items():
            before, began = follower.seen, follower.offset
            if self.listener is None or self.listener.watch is None:
                follower.skip()
            else:
                for block, end in follower.blocks(BUDGET):
                    self._tell(self.listener.feed_block(name, block, end, time.time(), self.clocks))
                more = more or follower.offset - began >= BUDGET
            if follower.seen > before:
                self._sound(name)
                self._cap(name, follower)
        return more

    def _sound(self, name: str) -> None:
        """Bytes came. With a translator only its signals prove progress; without one, bytes have to do."""
        if self.listener is None or self.listener.watch is None:
            self.clocks.heard()
        elif name == files.STDOUT:
            self.clocks.alive()

    def _tell(self, reason: Reason | None) -> None:
        """The first reason counts; what is seen after the end was decided changes nothing."""
        if reason is not None and self.stop is None and not self._gone():
            self.stop = reason

    def _cap(self, name: str, follower: Follower) -> None:
        cap = self.caps.get(name)
        try:
            if cap is not None and cap.check(follower.offset):
                follower.rewind()
        except OSError as error:
            self.caps.pop(name)
            self.notes.append(f"{name} could not be capped: {error.strerror}")

    def _read_control(self) -> None:
        for line in self.control.lines(BUDGET):
            try:
                message = plain_json.loads(line.decode(errors="replace"))
            except ValueError:
                continue
            if not isinstance(message, dict) or self.stop is not None:
                continue
            by = str(message.get("by") or "a person")
            if message.get("do") == "cancel":
                self.stop = Reason("cancelled", f"cancelled by {by}", "cancelled")
            elif message.get("do") == "stop":
                self.stop = Reason("stopped", f"stopped by {by}", "stopped")

    def _attend_gate(self) -> None:
        """A call that is held is no silence and costs no worker time; when it was held for long, the task is parked."""
        if self.gate is None:
            return
        self.gate.session = self.listener.session if self.listener else None
        words = self.gate.tick()
        if self.gate.holds:
            self.clocks.excuse(HELD)
        if words is not None:
            self._tell(Reason("approval", words, "awaiting_approval"))
        if self.held is None:
            return
        if self.gate.proved:
            self._hand_over(self.held)
        elif self.clocks.active >= (self.spec.start or PROOF):
            words = "the approval gate did not report itself in time; the prompt was not given"
            self._tell(Reason("gate", words, "permission_denied"))

    def _hand_over(self, held: Held) -> None:
        """The gate is active: the worker gets its prompt, as fast as it reads."""
        self.wake.register(held.writer, select.POLLOUT)
        writer = held.writer
        if held.give():
            self.held = None
            self.wake.unregister(writer)

    def _sample(self) -> None:
        """Look at the tree's CPU, when silence makes that worth its price."""
        if not self.clocks.tool_open or self.clocks.plain:
            self.call_began = 0.0
        elif self.call_began == 0.0 and hasattr(time, "CLOCK_BOOTTIME"):
            harness_up = self.own[1] / processes.TICKS + HARNESS_START
            self.call_began = max(time.clock_gettime(time.CLOCK_BOOTTIME), harness_up)
        elapsed = self.clocks.sample_due()
        if elapsed is not None:
            self.clocks.sampled(self.activity.sample(self.tree.find(), elapsed, self.call_began))

    def _check_clocks(self) -> None:
        due = self.clocks.due()
        if due is not None and self.stop is None:
            kind, words = CLOCK_WORDS[due]
            self.stop = Reason(due, words, kind)

    # --- wait and reap --------------------------------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        """Sleep until something happened to a child or to us, or for that long."""
        try:
            ready = {fd for fd, _ in self.wake.poll(max(1, seconds * 1000))}
            if _WAKE_READER[0] in ready:
                self._signals(os.read(_WAKE_READER[0], 4096))
            if self.gate is not None and ready - {_WAKE_READER[0]}:
                self._serve(self.gate)
        except InterruptedError:
            return
        self._reap()

    def _serve(self, gate: Gate) -> None:
        """Answer the worker at once; its connections are watched for as long as they live."""
        before = set(gate.fds())
        gate.serve()
        after = set(gate.fds())
        for fd in before - after:
            self.wake.unregister(fd)
        for fd in after - before:
            self.wake.register(fd, select.POLLIN)
        if after - before:
            self._serve(gate)  # what came with the connection is here already
        elif self.held is not None and gate.proved:
            self._hand_over(self.held)

    def _rest(self, seconds: float) -> None:
        """Sleep that long, unless we are told to stop."""
        deadline = time.monotonic() + seconds
        while self.stop is None and (left := deadline - time.monotonic()) > 0:
            self._pause(left)

    def _signals(self, numbers: bytes) -> None:
        if any(number in (_signal.SIGTERM, _signal.SIGINT) for number in numbers) and self.stop is None:
            self.stop = Reason("stopped", "the supervisor was told to stop (SIGTERM)", "stopped")

    def _reap(self) -> None:
        """The worker, and every orphan of its tree that came to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status

    def _gone(self) -> bool:
        return self.status is not None

    # --- end ------------------------------------------------------------------------------------------------------

    def _end(self) -> Ended:
        if self.stop is None:
            self.stop = EXITED  # from here on nothing can give another reason
            grace = min(self.spec.grace, LEFTOVERS)
        elif self.stop.reason == "quota":
            grace = min(self.spec.grace, QUICK)
        else:
            grace = self.spec.grace
        ended = end(self.tree, grace, self._pump, self._gone)
        self.tree.close()
        if self.gate is not None:
            self.gate.close()
        if self.held is not None:
            self.held.close()
        self._drain()
        if self.stop is EXITED and self.listener is not None and self.listener.ungated is not None:
            self.stop = self.listener.ungated  # however late we look: an end without a gate is no good one
        return ended

    def _pump(self, seconds: float) -> None:
        """While the tree ends its output goes on, and goes on to be capped."""
        self._pause(seconds)
        if self.listener is not None or self.spec.harness is None:
            self._listen()

    def _drain(self) -> None:
        """Read what is left for what it tells about the session; nothing in it can end anything any more."""
        if self.listener is None and self.spec.gate_required:
            self._load_listener()
        if self.listener is None:
            for name, follower in self.outputs.items():
                follower.skip()
                self._cap(name, follower)
            return
        while self._listen():
            pass
        for name, follower in self.outputs.items():
            rest = follower.rest()
            if rest:
                self.listener.feed(name, rest, time.time(), self.clocks)

    # --- record ---------------------------------------------------------------------------------------------------

    def _record(self, ended: Ended) -> None:
        reason = self.stop or EXITED
        self.clocks.advance(time.monotonic(), time.time())
        record = {
            "marker": self.spec.marker,
            "started_at": self.started_at,
            "ended_at": time.time(),
            "reason": reason.reason,
            "detail": reason.detail[:500],
            "exit_code": _exit_code(self.status),
            "signal": _signal_number(self.status),
            "timed_out": reason.reason in ("start_silence", "stalled", "hard_cap"),
            "survivors": ended.survivors,
            "ended_processes": ended.names[:50],
            "kind": reason.kind,
            "proof": reason.detail[:500] if reason.kind is not None else "",
            "hold": reason.hold,
            "detection": self.listener.detection if self.listener else self.spec.detection,
            "active_seconds": round(self.clocks.active, 3),
            "observed_model": self.listener.model if self.listener else None,
            "session_id": self.listener.session if self.listener else None,
            "notes": [*self.notes, *self._late_notes()],
        }
        path = f"{self.folder}/{files.EXIT}"
        if not files.write_when_possible(path, plain_json.dumps(record), DISK_PATIENCE):
            raise SystemExit(1)

    def _late_notes(self) -> list[str]:
        notes = [
            f"{name}: {cap.removed} bytes in the middle were dropped, head and tail kept"
            for name, cap in self.caps.items()
            if cap.removed
        ]
        notes += [f"left running (keep_daemons): {pid} {name}" for (pid, _), name in self.tree.kept.items()]
        if self.clocks.slept >= 1:
            notes.append(f"the machine slept for {self.clocks.slept:.0f} s; that does not count")
        if self.clocks.waited >= 1:
            notes.append(f"waited {self.clocks.waited:.0f} s for the provider; that does not count")
        return notes


def _spawn_failure(error: SpawnError, spec: Spec) -> Reason:
    what = {
        "program": f"{spec.argv[0]} cannot be started",
        "folder": f"the working folder {spec.cwd} cannot be entered",
        "stdin": f"the prompt {spec.stdin} cannot be read",
        "output": "the output files cannot be opened",
    }[error.stage]
    kind = None
    if error.stage == "program":
        kind = "brief_too_large" if error.errno == errno.E2BIG else "harness_missing"
    return Reason("spawn_failed", f"{what}: {os.strerror(error.errno)}", kind)


def _exit_code(status: int | None) -> int | None:
    return os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None


def _signal_number(status: int | None) -> int | None:
    return os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None


_WAKE_READER = [-1]


def _watch_signals() -> select.poll:
    """Signals wake the poll through a pipe; SIGHUP is ignored, because the terminal may go and we stay."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    _WAKE_READER[0] = reader
    _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGINT):
        _signal.signal(number, _nothing)
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    return poll


def _nothing(_number: int, _frame: object) -> None:
    """The pipe has told it already."""


def main(folder: str, lock: int | None, unset: Sequence[str]) -> int:
    """`lock`: the locked attempt.lock that the launcher handed over, or None to take it here.

    Exit code 3: another supervisor has, or had, this attempt; it is never run twice.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if lock is None:
        lock = files.take_lock(f"{folder}/{files.LOCK}")
        if lock is None:
            return 3
    os.set_inheritable(lock, False)
    if os.fstat(lock).st_size:
        return 3
    kernel.become_subreaper()
    Supervisor(folder, unset).run(lock)
    return 0
