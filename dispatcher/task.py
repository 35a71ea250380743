"""The vocabulary: enums and frozen values that every room shares. No behaviour beyond reading a field.

Times are UTC epoch seconds (float). Durations are seconds (float). Money is US dollars (float), unknown is None and
never 0. Paths are absolute strings. Text from a worker is data: it is cleaned where it is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from dispatcher.record import record

# --- life cycle -------------------------------------------------------------------------------------------------


class Status(StrEnum):
    """Where a task stands. How an attempt ended is an `OutcomeClass`; the two are never mixed."""

    QUEUED = "queued"  # may be claimed now
    RUNNING = "running"  # claimed by a live owner; an attempt may be in flight
    WAITING = "waiting"  # every candidate is held; `not_before` says when it is tried again, None: once one is lifted
    AWAITING_APPROVAL = "awaiting_approval"  # a sensitive call waits for a person; no slot is used
    NEEDS_REVIEW = "needs_review"  # the work is done as far as machines can tell
    NEEDS_HUMAN = "needs_human"  # nothing more can be tried without a person
    PAUSED = "paused"  # a person stopped it; the copy is kept
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"  # waited longer than the configuration allows
    FAILED = "failed"  # our own error only


ALARMS = frozenset({Status.FAILED, Status.NEEDS_HUMAN, Status.AWAITING_APPROVAL})  # a person is called
TERMINAL = frozenset({Status.ACCEPTED, Status.REJECTED, Status.CANCELLED, Status.EXPIRED, Status.FAILED})

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.WAITING, Status.PAUSED, Status.CANCELLED, Status.NEEDS_HUMAN}),
    Status.RUNNING: frozenset(set(Status) - {Status.RUNNING, Status.ACCEPTED, Status.REJECTED}) | {Status.ACCEPTED},
    Status.WAITING: frozenset({Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.CANCELLED, Status.EXPIRED}),
    Status.AWAITING_APPROVAL: frozenset({Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.CANCELLED}),
    Status.NEEDS_REVIEW: frozenset({Status.ACCEPTED, Status.REJECTED, Status.QUEUED}),
    Status.NEEDS_HUMAN: frozenset({Status.QUEUED, Status.ACCEPTED, Status.REJECTED, Status.CANCELLED}),
    Status.PAUSED: frozenset({Status.QUEUED, Status.CANCELLED, Status.AWAITING_APPROVAL}),
    Status.ACCEPTED: frozenset({Status.QUEUED}),
    Status.REJECTED: frozenset({Status.QUEUED}),
    Status.CANCELLED: frozenset({Status.QUEUED}),
    Status.EXPIRED: frozenset({Status.QUEUED}),
    Status.FAILED: frozenset({Status.QUEUED}),
}

ON_RESTART: Mapping[Status, str] = {
    Status.QUEUED: "stays queued",
    Status.RUNNING: "owner alive: left alone. Owner gone: its attempt is adopted while the supervisor lives, settled "
    "from exit.json when that lies there, else the tree is ended and the attempt is `lost`; then the task goes on",
    Status.WAITING: "becomes claimable when `not_before` has passed or a hold was lifted; `expired` after `max_wait`",
    Status.AWAITING_APPROVAL: "stays; an answer given meanwhile makes it claimable",
    Status.NEEDS_REVIEW: "stays",
    Status.NEEDS_HUMAN: "stays",
    Status.PAUSED: "stays",
    Status.ACCEPTED: "stays",
    Status.REJECTED: "stays",
    Status.CANCELLED: "stays; a worker that is still alive is ended",
    Status.EXPIRED: "stays",
    Status.FAILED: "stays",
}


class OutcomeClass(StrEnum):
    """How an attempt ended: a closed list, printed by every listing and by `classify`."""

    COMPLETED = "completed"  # a positive result event
    RATE_LIMITED = "rate_limited"  # a 429 that names no plan, window, day or free allowance
    QUOTA_EXHAUSTED = "quota_exhausted"  # the error channel names a plan, window, day or free allowance
    BILLING = "billing"  # money is missing, or the key may not pay
    BILLING_MISMATCH = "billing_mismatch"  # the run spends other money than its credential says
    MODEL_MISMATCH = "model_mismatch"  # another model than the pinned one answered
    AUTH = "auth"
    MODEL_NOT_FOUND = "model_not_found"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    CONTEXT_OVERFLOW = "context_overflow"
    PERMISSION_DENIED = "permission_denied"
    INVALID_TOOL_ARGS = "invalid_tool_args"
    RUN_LIMIT = "run_limit"  # turns or budget of this run
    EMPTY_OUTPUT = "empty_output"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"  # the hard cap
    RUNAWAY = "runaway"
    AWAITING_APPROVAL = "awaiting_approval"
    CANCELLED = "cancelled"
    HARNESS_MISSING = "harness_missing"
    HARNESS_LOCKED = "harness_locked"  # the CLI's own store is locked
    GIT_SIGNING = "git_signing"
    BRIEF_TOO_LARGE = "brief_too_large"
    INTERNAL = "internal"  # the CLI says so itself
    KILLED = "killed"  # by a signal that was not ours
    STOPPED = "stopped"  # by a person or by us, in the middle: a pause, the end of its run; the task goes on
    LOST = "lost"  # no exit record: power cut, supervisor killed
    UNKNOWN = "unknown"  # non-zero, nothing to prove a class


class Difficulty(StrEnum):
    TRIVIAL = "trivial"
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"

    @property
    def harder(self) -> Difficulty:
        """One level up; `hard` stays `hard`."""
        levels = list(Difficulty)
        return levels[min(levels.index(self) + 1, len(levels) - 1)]


class Billing(StrEnum):
    FREE = "free"
    SUBSCRIPTION = "subscription"
    CREDIT = "credit"
    METERED = "metered"


class Tools(StrEnum):
    """What the worker may use. `edit` is file tools and the shell; `full` adds network tools and asks nothing."""

    READ = "read"
    EDIT = "edit"
    FULL = "full"


class Expect(StrEnum):
    """What proves a brief done: a commit, a changed tree, or a text with an untouched tree."""

    COMMIT = "commit"
    CHANGES = "changes"
    REPORT = "report"


class CopyMode(StrEnum):
    CLONE = "clone"
    WORKTREE = "worktree"
    IN_PLACE = "in_place"


class Deliver(StrEnum):
    BRANCH = "branch"
    PR = "pr"


class PromptKind(StrEnum):
    FIRST = "first"
    FINISH = "finish"  # the work is there: checks, then a commit of named files
    CONTINUE = "continue"  # part of the work is there, the rest is not
    CONFIRM = "confirm"  # commits are there: do what is left, or say that nothing is
    APPROVED = "approved"  # a parked call was answered: go on at that call


class Source(StrEnum):
    TERMINAL = "terminal"
    CRON = "cron"
    BATCH = "batch"
    IMPORT = "import"


class HoldScope(StrEnum):
    CANDIDATE = "candidate"  # key: candidate name
    MODEL = "model"  # key: credential/model id: this model on this credential
    CREDENTIAL = "credential"  # key: credential name
    PROVIDER = "provider"  # key: the text before the first slash of an opencode id, or "anthropic"


class ModelEvidence(StrEnum):
    """How the model that really answered is known."""

    CONFIRMED = "confirmed"  # the CLI or our plugin named it
    LOGGED = "logged"  # an error log line named it
    UNVERIFIED = "unverified"  # only requested


# --- what the configuration says ----------------------------------------------------------------------------------


@record
class Budget:
    """Caps per window. Keys of the inner maps: `window` (5 hours), `day`, `week`, `month`; for a task: `total`."""

    usd: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, float] = field(default_factory=dict)
    attempts: Mapping[str, float] = field(default_factory=dict)
    minutes: Mapping[str, float] = field(default_factory=dict)


@record
class Credential:
    """Whose quota or money. `env` names (never values) the variables that carry it to the worker."""

    name: str
    billing: Billing
    env: tuple[str, ...] = ()
    base_url: str | None = None
    budget: Budget = Budget()
    overage: bool = False  # paying beyond a subscription's limits is allowed
    config_dir: str | None = None  # claude: its own CLAUDE_CONFIG_DIR, so that two accounts do not share a login


@record
class Candidate:
    """One named entry of models.yaml: harness + full model id + credential."""

    name: str
    harness: str
    model: str
    credential: Credential
    per_day: int | None = None
    floating: bool = False  # the id is an alias; the resolved id is recorded
    context_window: int | None = None  # tokens; larger ones are preferred after a context overflow
    tools: Tools | None = None
    allow_untested: bool = False
    sandbox: str | None = None

    @property
    def provider(self) -> str:
        """The text before the first slash (`openrouter/x/y:free` -> `openrouter`); claude has one provider."""
        return self.model.split("/", 1)[0] if "/" in self.model else "anthropic"


@record
class Route:
    """The ordered candidates for one difficulty."""

    candidates: tuple[str, ...]
    spill: bool = False  # may move on to another billing mode than that of its first candidate
    free_first: bool = False  # above the pace of its budget, routine work goes to the free list
    sandbox: str | None = None


@record
class Limits:
    hard_cap: float = 45 * 60
    stall: float = 10 * 60
    start: float = 2 * 60
    grace: float = 15.0  # a finished worker that does not exit; also TERM -> KILL
    attempts: int = 4
    finish_attempts: int = 2
    backoffs: int = 3
    starts: int = 15
    jobs: int = 2
    switch_after: float = 5.0  # a stated wait up to this long is left to the harness
    max_wait: float = 14 * 86400  # waiting longer than this expires a task
    setup_cap: float = 15 * 60
    verify_cap: float = 15 * 60
    log_bytes: int = 64 * 1024 * 1024  # per output file of an attempt; head and tail are kept
    max_load_per_core: float = 4.0
    min_free_memory: int = 1024 * 1024 * 1024
    min_free_disk: int = 2 * 1024 * 1024 * 1024
    failures_in_a_row: int = 5  # of one candidate, without a success: held until a person


# --- a brief and its task -----------------------------------------------------------------------------------------


@record
class Brief:
    """A brief as written. Fields that the front matter leaves out are None, so that later rooms can default them."""

    body: str
    title: str
    difficulty: Difficulty | None = None
    repo: str | None = None
    base: str | None = None
    expect: Expect = Expect.COMMIT
    tools: Tools | None = None
    setup: tuple[str, ...] | None = None
    verify: tuple[str, ...] | None = None
    hidden_checks: str | None = None
    touch: tuple[str, ...] = ()
    priority: int = 0
    after: tuple[str, ...] = ()
    after_accepted: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    budget: Budget = Budget()
    approvals: tuple[Mapping[str, object], ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    deliver: Deliver = Deliver.BRANCH
    sandbox: str | None = None
    auto_accept: str | None = None  # "checks": accepted without a person when the checks pass


@record
class NextStep:
    """What the next attempt of a task is. Stored in the task row, so a restart goes on where it was."""

    prompt: PromptKind = PromptKind.FIRST
    candidate: str | None = None  # name of the one to use if it is free; None = walk the route
    session_id: str | None = None  # resume this session, only with the same candidate and folder
    avoid: tuple[str, ...] = ()  # candidates already tried in this walk
    note: str = ""  # what the prompt must say beside the brief: failed checks, hook output, the answer to an approval
    settle: int | None = None  # id of an attempt whose work is there: its settlement goes on, no worker is started


@record
class Counters:
    attempts: int = 0  # redispatches that count
    finish_attempts: int = 0  # finish, continue and confirm prompts
    starts: int = 0  # processes started, all kinds
    backoffs: Mapping[str, int] = field(default_factory=dict)  # per candidate
    escalations: int = 0
    idle_successes: int = 0  # "said done, changed nothing"
    check_failures: int = 0
    lost: int = 0  # attempts in a row that ended `lost`


@record
class Task:
    """One row of the queue."""

    id: int
    title: str
    brief_text: str  # the whole file, front matter included
    brief_path: str | None
    brief_digest: str  # sha256 of repository path + brief text
    repository: str | None  # None: a task without a repository
    difficulty: Difficulty
    difficulty_reason: str
    expect: Expect
    priority: int
    status: Status
    status_reason: str
    created_at: float
    updated_at: float
    not_before: float | None = None
    batch: str | None = None
    source: Source = Source.TERMINAL
    owner: str | None = None  # the runner that claimed it
    copy_path: str | None = None
    task_base: str | None = None  # JSON of repository.TaskBase, taken once before the first attempt
    branch: str | None = None
    result_commit: str | None = None
    final_text: str | None = None
    flags: tuple[str, ...] = ()
    next: NextStep = NextStep()
    counters: Counters = Counters()

    def runs_under(self, owner: str | None) -> bool:
        """Whether it is at work for this run; None: for any. What a person did to it meanwhile makes it false."""
        return self.status is Status.RUNNING and owner in (None, self.owner)

    @property
    def until_lifted(self) -> bool:
        """Whether it waits until a person lifts a hold: no time will free it."""
        return self.status is Status.WAITING and self.not_before is None


# --- one attempt --------------------------------------------------------------------------------------------------


@record
class Usage:
    """Tokens by kind, as the CLI reports them for this attempt alone. None = unknown."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None  # list price as the CLI computes it


@record
class HoldRequest:
    """What an outcome asks to be held. `until` None means until a person lifts it."""

    scope: HoldScope
    until: float | None
    reason: str
    window: str | None = None  # five_hour, seven_day, day, month, ... as the provider names it
    stated: bool = False  # the provider named `until`; otherwise it is a guess


@record
class Hold:
    id: int
    scope: HoldScope
    key: str
    until: float | None
    reason: str
    created_at: float
    by: str  # "dispatcher" or the account of the person
    window: str | None = None


@record
class Outcome:
    """How an attempt ended, and what proves it."""

    kind: OutcomeClass
    reason: str  # in words
    proof: str = ""  # the field or the line that shows it, at most 500 characters
    positive: bool = False  # the harness gave a positive result event
    hold: HoldRequest | None = None
    session_id: str | None = None
    final_text: str = ""
    usage: Usage = Usage()
    observed_model: str | None = None
    model_evidence: ModelEvidence = ModelEvidence.UNVERIFIED
    denials: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()  # open items of the harness's own todo list
    notes: tuple[str, ...] = ()
    tool_calls: int = 0
    session_gone: bool = False  # the session that was to be resumed does not exist any more: nothing was run
    never_started: bool = False  # silent from its first moment until it was ended for that


@record
class Attempt:
    """One worker process run for a task: the row is written before the process exists."""

    id: int
    task_id: int
    number: int  # counts from 1 within the task
    prompt: PromptKind
    candidate: str
    harness: str
    model: str
    credential: str
    billing: Billing
    folder: str
    marker: str  # unique; in the environment of everything the attempt starts
    started_at: float
    harness_version: str | None = None
    session_id: str | None = None
    ended_at: float | None = None
    outcome: OutcomeClass | None = None
    outcome_reason: str = ""
    proof: str = ""
    verdict: str | None = None
    verdict_reason: str = ""
    counted: bool = False
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    end_reason: str | None = None  # why the supervisor ended it; "exited" when it ended by itself
    survivors: int | None = None
    usage: Usage = Usage()
    observed_model: str | None = None
    model_evidence: ModelEvidence = ModelEvidence.UNVERIFIED
    detection: str | None = None  # "plugin", "log", "stream": what would have seen a quota signal live
    base_commit: str | None = None
    result_commit: str | None = None
    evidence: str | None = None  # JSON of Evidence
    snapshot_ref: str | None = None
    final_text: str = ""
    notes: tuple[str, ...] = ()
    host: str = ""
    source: Source = Source.TERMINAL
    seconds: float | None = None  # worker time; waiting for a person or a reset does not count
    billed_usd: float | None = None  # what it really cost; free and subscription: 0 by plan; None: unknown
    pid: int | None = None  # of the worker, kept after its end, with what tells a reused one apart:
    pid_start: int | None = None  # clock ticks since the boot
    boot: str | None = None


# --- git's side ---------------------------------------------------------------------------------------------------


class Shape(StrEnum):
    """The columns of the verdict table, read against the task's base."""

    NOTHING = "nothing"
    DIRTY = "dirty"
    COMMITS = "commits"
    COMMITS_DIRTY = "commits+dirty"


@record
class Commit:
    sha: str
    subject: str


@record
class Evidence:
    """What git says was left behind. Paths are relative to the copy, decoded with surrogateescape."""

    head: str | None = None
    commits: tuple[Commit, ...] = ()  # base..HEAD, oldest first
    dirty: tuple[str, ...] = ()  # changed or untracked, minus what was there before and minus scratch
    files: tuple[str, ...] = ()  # every path that differs from the base, committed or not
    insertions: int = 0
    deletions: int = 0
    moved: bool = False  # this attempt changed something (against attempt_start)
    rewritten: bool = False  # HEAD does not descend from the base
    detached: bool = False
    elsewhere: tuple[str, ...] = ()  # "<sha> in <folder>": commits by this worker's own git outside its copy
    ignored: tuple[str, ...] = ()  # only git-ignored paths changed
    scratch: tuple[str, ...] = ()  # tool state such as .claude/settings.local.json: not work
    nested: tuple[str, ...] = ()  # untracked repositories inside the copy
    stale_lock: str | None = None
    hook_output: str | None = None  # a commit hook refused: its words
    error: str | None = None  # git itself failed: its stderr. Nothing else in here may then be trusted
    notes: tuple[str, ...] = ()
    signing_error: str | None = None  # the program that should sign the last commit here failed or never ended
    gone: bool = False  # git was not asked: `error` says which folder is not there any more

    @property
    def shape(self) -> Shape:
        if self.commits:
            return Shape.COMMITS_DIRTY if self.dirty else Shape.COMMITS
        return Shape.DIRTY if self.dirty else Shape.NOTHING


# --- checks and the verdict ---------------------------------------------------------------------------------------


@record
class CheckResult:
    command: str
    hidden: bool
    passed: bool
    exit_code: int | None
    seconds: float
    output: str = ""  # head and tail; empty in prompts when hidden
    red_before: bool = False  # failed on the base too: not the worker's fault


@record
class Checks:
    """Results of the commands that we ran ourselves. `configured` False = there are none to run."""

    configured: bool = False
    results: tuple[CheckResult, ...] = ()
    outside_touch: tuple[str, ...] = ()  # changed paths that no `touch` glob allows
    error: str | None = None  # the checks could not be run at all

    @property
    def passed(self) -> bool:
        return self.error is None and not self.outside_touch and all(r.passed or r.red_before for r in self.results)


class Action(StrEnum):
    """What happens next."""

    CHECK = "check"  # the work is complete as far as git tells: run the checks, then judge again
    REVIEW = "review"  # -> needs_review
    FINISH = "finish"
    CONTINUE = "continue"
    CONFIRM = "confirm"
    REDISPATCH = "redispatch"  # the first prompt again
    NEEDS_HUMAN = "needs_human"
    AWAIT_APPROVAL = "await_approval"
    CANCEL = "cancel"


@record
class Verdict:
    """One decision with its reason in words. `next` is None when the task rests."""

    action: Action
    reason: str
    next: NextStep | None = None
    counters: Counters = Counters()  # the counters after this attempt
    counted: bool = False  # this attempt counts against its candidate
    delay: float = 0.0  # seconds to wait before the next attempt (short back-off)
    escalate: bool = False
    flags: tuple[str, ...] = ()


# --- the supervisor's side ----------------------------------------------------------------------------------------


class EndReason(StrEnum):
    """Why a worker's process tree ended."""

    EXITED = "exited"
    FINISHED = "finished"  # it had given its result but did not exit within the grace
    START_SILENCE = "start_silence"
    STALLED = "stalled"
    HARD_CAP = "hard_cap"
    QUOTA = "quota"  # a quota signal was seen live
    RUNAWAY = "runaway"
    MISMATCH = "mismatch"  # billing or model are not those of the route
    APPROVAL = "approval"  # a call waits for a person
    GATE = "gate"  # the approval gate is not proved to be active
    CANCELLED = "cancelled"
    STOPPED = "stopped"  # told to end it now; the task goes on later
    PERMISSION = "permission"  # an ask that nobody can answer
    SPAWN_FAILED = "spawn_failed"
    SUPERVISOR_ERROR = "supervisor_error"


@record
class ExitRecord:
    """exit.json: written once by the supervisor (write, fsync, rename) after the tree is dead."""

    marker: str
    started_at: float
    ended_at: float
    reason: EndReason
    detail: str = ""
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    survivors: int = 0
    ended_processes: tuple[str, ...] = ()  # "pid name" of what the sweep had to end
    kind: OutcomeClass | None = None  # a class seen live
    proof: str = ""
    hold: HoldRequest | None = None
    detection: str = "stream"
    active_seconds: float = 0.0
    observed_model: str | None = None
    session_id: str | None = None
    notes: tuple[str, ...] = ()
