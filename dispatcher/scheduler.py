"""Many tasks: recover what a crash left, claim, keep the slots filled, obey signals, say how it went.

`run` is safe to start at any time and as often as you like: claims are atomic, `jobs` is a limit of the home, and a
process that finds nothing to do ends at once without loading an event loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from dispatcher import host
from dispatcher.errors import DispatcherError, NotFound, StoreError
from dispatcher.record import record
from dispatcher.store import history, holds, in_hand, locks, queue
from dispatcher.task import ALARMS, Attempt, Source, Status, Task
from dispatcher.words import plural

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from dispatcher.config import Config
    from dispatcher.runner import Context
    from dispatcher.store import Store

STOPPED = 128  # plus the number of the signal that ended workers whose tasks are left, as a shell counts
ALL_HELD = 75  # EX_TEMPFAIL: work is left, every candidate is on hold
NEEDS_PERSON = 1

STAGGER = 0.5  # seconds between two starts: a CLI's own start keeps a core busy for two
FRESH = 10.0  # seconds until a started worker has taken the memory that it needs
WORTH_A_WORD = 10.0  # seconds of a wait for the host
LOOK_AGAIN = 10.0  # seconds between two looks for tasks of runs that died meanwhile
MODELS = "models"  # in the store's meta: what stood in models.yaml when a run was started last
LAST_RUN = "last_run"  # in the store's meta: epoch seconds, a blank, where it was started from

_LEFT = frozenset({Status.QUEUED, Status.WAITING, Status.RUNNING})


def _nobody(text: str) -> None:
    """The default listener."""


@record
class Options:
    jobs: int | None = None  # None: `limits.jobs`
    task_id: int | None = None
    batch: str | None = None  # only tasks of this batch
    max_tasks: int | None = None
    watch: bool = False
    source: Source = Source.TERMINAL
    say: Callable[[Task, Attempt | None, str], None] | None = None
    until: float | None = None  # nothing is started from then on; what runs may finish
    notify: tuple[str, ...] | None = None  # instead of the configured command
    tell: Callable[[str], None] = _nobody  # what concerns no single task


@dataclass
class Summary:
    """What this run did. `waiting_until` is set when work is left but every candidate is held, `held` is the number of
    tasks that no time will free, only a person who lifts a hold."""

    moved: list[Task] = field(default_factory=list)
    waiting_until: float | None = None
    held: int = 0
    note: str = ""
    refused: bool = False  # the host was too busy to start what is left
    stopped_by: int | None = None  # the signal that ended workers: a second Ctrl-C, or TERM
    batches: list[dict[str, Any]] = field(default_factory=list)  # of the tasks that it moved

    @property
    def exit_code(self) -> int:
        if self.stopped_by is not None and any(task.status in _LEFT for task in self.moved):
            return STOPPED + self.stopped_by
        if any(task.status in ALARMS or task.until_lifted for task in self.moved):
            return NEEDS_PERSON
        return ALL_HELD if self.waiting_until is not None or self.held or self.refused else 0


def run(config: Config, store: Store, logs: Path, options: Options) -> Summary:
    """Work until nothing can run now. Raises nothing that a task did; its own errors are DispatcherErrors."""
    host.refuse_few_files()
    lock = locks.RunnerLock(logs)
    owner = lock.acquire()
    locks.clean(logs)
    if config.approvals.expire is not None:
        from dispatcher import approving

        approving.collect_all(store, config, time.time())
    try:
        store.set_meta(LAST_RUN, f"{time.time():.3f} {options.source}")
        look_again(config, store)
        stand_in(config, store, logs, owner, options)
        lost, strays = queue.orphans(store), strayed(store)
        busy = host.admission(config.limits, writing(config, logs))
        first = None if lost or strays or busy or closed(options) else claim(config, store, owner, options)
        if first is None and not lost and not strays and not options.watch:
            if busy is None or closed(options) or not claimable(store):
                return summarise(store, [], options)
            if options.source is Source.CRON:
                return summarise(store, [], options, busy)
        return work(config, store, logs, owner, options, lost, strays, first)
    finally:
        lock.release()


def look_again(config: Config, store: Store) -> None:
    """Tasks that wait until a person lifts a hold may have another candidate since models.yaml was changed."""
    from dispatcher.config import regular

    try:
        written = f"{crc32(regular.read(config.file)):08x}"
    except OSError:
        return  # what was read is good for this run; the next one looks again
    if store.get_meta(MODELS) != written:
        store.set_meta(MODELS, written)
        holds.wake_untimed(store, time.time())


def stand_in(config: Config, store: Store, logs: Path, owner: str, options: Options) -> None:
    """Tell what runs had still to tell when they were killed."""
    left = in_hand.inherit(store, str(logs), owner)
    if left:
        from dispatcher.telling import Teller

        Teller(config, logs, os.environ, options.notify).stand_in(store, left, time.time())
        in_hand.end(store, owner)


def strayed(store: Store) -> list[Attempt]:
    """Attempts without an end whose task does not run any more."""
    running = {task.id for task in queue.running(store)}
    return [attempt for attempt in history.open_attempts(store) if attempt.task_id not in running]


def writing(config: Config, logs: Path) -> tuple[str, ...]:
    """Where workers write."""
    return (str(logs), str(config.copies_root))


def closed(options: Options) -> bool:
    """Whether the time of this run is over."""
    return options.until is not None and time.time() >= options.until


def claimable(store: Store) -> bool:
    """Whether something waits that could be claimed, dependencies aside."""
    wake = queue.next_wake(store)
    return bool(queue.counts(store).get(Status.QUEUED)) or (wake is not None and wake <= time.time())


def claim(config: Config, store: Store, owner: str, options: Options) -> Task | None:
    jobs = options.jobs or config.limits.jobs
    return queue.claim(store, owner=owner, now=time.time(), jobs=jobs, task_id=options.task_id, batch=options.batch)


def work(
    config: Config,
    store: Store,
    logs: Path,
    owner: str,
    options: Options,
    lost: list[Task],
    strays: list[Attempt],
    first: Task | None,
) -> Summary:
    import anyio

    from dispatcher.runner import Context
    from dispatcher.supervisor.kernel import become_subreaper

    become_subreaper()
    ctx = Context(config, store, logs, owner, dict(os.environ), time.time, options.source)
    if options.say is not None:
        ctx.say = options.say
    loop = Loop(ctx, options)
    ctx.asked = lambda task, asked: loop.teller.approval(task, asked, time.time())
    try:
        anyio.run(loop.main, lost, strays, first)
    finally:
        ctx.forks.close()
    if loop.broken is not None:
        raise loop.broken
    summary = summarise(store, loop.moved, options, loop.gate.busy)
    summary.stopped_by = loop.stopped_by
    summary.batches = loop.teller.batches(store, loop.moved, time.time())
    if loop.teller.listens:
        in_hand.end(store, owner)
    return summary


def summarise(store: Store, moved: list[Task], options: Options, busy: str | None = None) -> Summary:
    """`busy`: why the host took no more, when that is why this run ends."""
    waiting = queue.tasks(store, status=(Status.WAITING,))
    if options.task_id is not None:
        waiting = [task for task in waiting if task.id == options.task_id]
    if options.batch is not None:
        waiting = [task for task in waiting if task.batch == options.batch]
    until = min((task.not_before for task in waiting if task.not_before), default=None)
    note = ""
    if busy is not None:
        note = f"nothing more was started: {busy}"
    elif closed(options) and claimable(store):
        note = "the time of this run is over; what is left waits for the next one"
    held = sum(task.until_lifted for task in waiting)
    return Summary(moved, until, held, note, refused=busy is not None)


class Gate:
    """May one more worker start? Asked before every claim; remembers since when the host has said no, and whether a
    person was told of it."""

    def __init__(self, config: Config, logs: Path) -> None:
        self.limits = config.limits
        self.paths = writing(config, logs)
        self.heavy = any(c.harness != "scripted" for c in config.roster.candidates.values())
        self.starts: dict[int, float] = {}  # task -> when its worker was started, while it runs
        self.busy: str | None = None
        self.since = 0.0
        self.told = False

    def open(self) -> bool:
        now = time.monotonic()
        fresh = sum(now - at < FRESH for at in self.starts.values()) if self.heavy else 0
        refused = host.admission(self.limits, self.paths, fresh)
        if refused is not None and self.busy is None:
            self.since = now
        self.busy = refused
        return refused is None

    def patient(self) -> bool:
        """Whether a run that has nothing else to do still waits for the host."""
        return self.busy is not None and time.monotonic() - self.since < host.PATIENCE

    def waits(self) -> str:
        self.told = True
        return f"waits for the host: {self.busy}"

    def goes_on(self) -> str | None:
        """What is told when a wait is over that was told of; a short one is not worth it."""
        waited, told = time.monotonic() - self.since, self.told
        self.told = False
        return f"the host is free again after {waited:.0f} s" if told and waited >= WORTH_A_WORD else None


class Loop:
    """Slots, claims and signals of one run."""

    def __init__(self, ctx: Context, options: Options) -> None:
        import anyio

        from dispatcher.telling import Teller

        self.ctx = ctx
        self.options = options
        self.gate = Gate(ctx.config, ctx.logs)
        self.teller = Teller(ctx.config, ctx.logs, ctx.environ, options.notify)
        self.moved: list[Task] = []
        self.active = 0
        self.started = 0
        self.draining = False
        self.stopped_by: int | None = None
        self.broken: StoreError | None = None  # nothing can be written down any more: no worker is started
        self.looked = time.monotonic()
        self.changed = anyio.Event()

    async def main(self, lost: list[Task], strays: list[Attempt], first: Task | None) -> None:
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self.listen, group.cancel_scope)
            if first is not None:
                self.begin(group, first)
            try:
                for stray in strays:
                    await self.settle_stray(stray)
                self.take_over(group, lost)
                await self.fill(group)
            except StoreError as error:
                self.break_off(error)
                await self.fill(group)  # only waits for what runs
            group.cancel_scope.cancel()

    def take_over(self, group: TaskGroup, lost: list[Task]) -> None:
        """Tasks of a run that died."""
        for task in lost:
            taken = queue.take_over(self.ctx.store, task.id, owner=self.ctx.owner, now=time.time())
            if taken is not None:
                self.begin(group, taken, recovering=True)

    def break_off(self, error: StoreError) -> None:
        """What runs is waited for; what cannot be written down stays ours, so that the next run takes it over."""
        self.broken = self.broken or error
        self.draining = True

    async def fill(self, group: TaskGroup) -> None:
        """Claim while there is something to claim; wait for a slot otherwise."""
        import anyio

        while True:
            await self.claim_all(group)
            if not self.active and not self.stays():
                return
            self.changed = anyio.Event()
            with anyio.move_on_after(1.0):  # tasks that other processes add meanwhile
                await self.changed.wait()
            if time.monotonic() - self.looked >= LOOK_AGAIN and not self.ends():
                self.looked = time.monotonic()
                self.take_over(group, queue.orphans(self.ctx.store))

    def stays(self) -> bool:
        """Whether to go on although nothing runs: to watch, or because only the host is in the way."""
        if self.ends():
            return False
        return self.options.watch or (self.gate.patient() and claimable(self.ctx.store))

    def ends(self) -> bool:
        return self.draining or self.exhausted() or closed(self.options)

    async def claim_all(self, group: TaskGroup) -> None:
        import anyio

        while not self.ends():
            if not self.gate.open():
                if not self.gate.told and claimable(self.ctx.store):  # also when there was no work at first
                    self.options.tell(self.gate.waits())
                return
            over = self.gate.goes_on()
            if over is not None:
                self.options.tell(over)
            task = claim(self.ctx.config, self.ctx.store, self.ctx.owner, self.options)
            if task is None:
                return
            self.begin(group, task)
            if self.gate.heavy:
                await anyio.sleep(STAGGER)

    def exhausted(self) -> bool:
        return self.options.max_tasks is not None and self.started >= self.options.max_tasks

    def begin(self, group: TaskGroup, task: Task, *, recovering: bool = False) -> None:
        self.active += 1
        self.started += 1
        self.gate.starts[task.id] = time.monotonic()
        if self.teller.listens:
            in_hand.begin(self.ctx.store, self.ctx.owner, task.id)
        group.start_soon(self.one, task, recovering)

    async def one(self, task: Task, recovering: bool) -> None:
        """A task's own failure is its status; it never ends the others."""
        from dispatcher.runner import recover, run_task

        try:
            done = await self.told(task, (recover if recovering else run_task)(self.ctx, task))
            if done is not None:
                self.moved.append(done)
                self.teller.task(done, time.time())
                if self.teller.listens:
                    in_hand.told(self.ctx.store, self.ctx.owner, done.id)
        finally:
            self.gate.starts.pop(task.id, None)
            self.active -= 1
            self.changed.set()

    async def told(self, task: Task, work: Awaitable[Task]) -> Task | None:
        """The task after its work; None when even its failure could not be written down."""
        from dispatcher.runner import trouble

        try:
            try:
                return await work
            except Exception as error:
                fatal = trouble.stops_the_run(error)
                if fatal is not None:
                    raise fatal from error
                return trouble.give_up(self.ctx, task, error)
        except StoreError as error:
            self.break_off(error)
            return None

    async def settle_stray(self, attempt: Attempt) -> None:
        """An attempt that has no end although its task no longer runs: its worker is ended, its row closed."""
        from dispatcher.runner.settle import settle
        from dispatcher.supervisor import client

        async def work() -> Task:
            folder = Path(attempt.folder)
            with suppress(NotFound):
                do = "cancel" if task.status is Status.CANCELLED else "stop"  # what is paused goes on later
                client.send(folder, {"do": do, "by": "a later run"})
            await client.wait(folder, None)
            return (await settle(self.ctx, task, attempt))[0]

        task = queue.get(self.ctx.store, attempt.task_id)
        await self.told(task, work())

    async def listen(self, scope: object) -> None:
        """Ctrl-C once: drain. Twice, or TERM: end the workers now; their tasks go on at the next run."""
        import signal

        import anyio

        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGTERM or (number == signal.SIGINT and self.draining):
                    self.stopped_by = self.stopped_by or int(number)
                    self.stop_now()
                elif self.active:
                    self.options.tell(f"finishing {plural(self.active, 'worker')}; Ctrl-C again ends them now")
                self.draining = True
                self.changed.set()

    def stop_now(self) -> None:
        from dispatcher.supervisor import client

        self.ctx.stopping = True
        for number, folder in list(self.ctx.live.items()):
            try:
                client.send(folder, {"do": "stop", "by": "the run that watches it"})
            except DispatcherError as error:  # the others are told all the same
                self.options.tell(f"task {number}: its worker could not be ended: {error.message}")
