"""Add, claim and change: who gets which task when, and what may follow what."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import store
from dispatcher.errors import BadInput, InternalError, NotFound, Refused
from dispatcher.store import Store, journal, locks, queue
from dispatcher.task import TRANSITIONS, Counters, Difficulty, Expect, NextStep, PromptKind, Source, Status, Task
from tests.store.conftest import add, begin, claim, end, new
from tests.store.processes import together

# --- add -----------------------------------------------------------------------------------------------------------


def test_a_new_task(db: Store) -> None:
    added = queue.add(db, new(repository="/src/shop", batch="night", source=Source.CRON, expect=Expect.REPORT), 5.0)
    task = added.task
    assert added.how == "added"
    assert task == queue.get(db, task.id)
    assert (task.status, task.created_at, task.updated_at) == (Status.QUEUED, 5.0, 5.0)
    assert (task.repository, task.batch, task.source, task.expect) == ("/src/shop", "night", "cron", "report")
    assert (task.next, task.counters, task.flags) == (NextStep(), Counters(), ())
    (event,) = queue.events(db, task.id)
    assert (event.kind, event.by, event.at) == ("added", "dispatcher", 5.0)


def test_the_same_brief_again(db: Store) -> None:
    first = queue.add(db, new(), 1.0)
    assert queue.add(db, new(), 2.0) == queue.Added(first.task, "exists")
    assert queue.add(db, new(repository="/other"), 2.0).how == "added"
    changed = queue.add(db, new(priority=5), 3.0)
    assert (changed.how, changed.task.id, changed.task.priority) == ("updated", first.task.id, 5)
    again = queue.add(db, new(), 4.0, again=True)
    assert (again.how, again.task.id) == ("added", 3)


def test_a_brief_edited_before_its_first_attempt_replaces_its_task(db: Store) -> None:
    first = queue.add(db, new(brief_path="/b/login.md"), 1.0).task
    edited = queue.add(db, new("Fix the logout", brief_path="/b/login.md"), 2.0)
    assert (edited.how, edited.task.id, edited.task.title) == ("updated", first.id, "Fix the logout")
    assert claim(db) is not None
    later = queue.add(db, new("Fix both", brief_path="/b/login.md"), 3.0)
    assert (later.how, later.task.id) == ("added", 2)


def test_what_was_run_stays_as_it_is(db: Store) -> None:
    task = add(db)
    claim(db)
    queue.update(db, task.id, 5.0, status=Status.NEEDS_REVIEW)
    found = queue.add(db, new(priority=9), 6.0)
    assert (found.how, found.task.status, found.task.priority) == ("exists", Status.NEEDS_REVIEW, 0)


def test_dependencies_are_checked(db: Store) -> None:
    first = add(db, "first")
    second = add(db, "second", after=(first.id,))
    with pytest.raises(NotFound, match="no task 99 to wait for"):
        add(db, "third", after=(99,))
    with pytest.raises(BadInput, match="cannot wait for"):
        add(db, "first", after_accepted=(second.id,))
    with pytest.raises(BadInput, match="cannot wait for"):
        add(db, "first", after=(first.id,))
    assert [task.title for task in queue.tasks(db)] == ["first", "second"]
    assert queue.blockers(db, first.id) == []


HOSTILE = "a\0b\udcffc\x1b[31m\u202e" + "x" * 2_000_000


def test_hostile_text_is_stored(db: Store) -> None:
    task = add(db, HOSTILE, brief_text=HOSTILE, difficulty_reason=HOSTILE, batch=HOSTILE)
    assert task.brief_text == HOSTILE.replace("\0", "\ufffd").replace("\udcff", "\ufffd")
    assert task.title.startswith("a\ufffdb\ufffdc\x1b[31m\u202exx")
    assert "characters left out" in task.title
    assert len(task.title) <= 4096
    queue.update(db, task.id, 2.0, final_text=HOSTILE, flags=(HOSTILE,), event=HOSTILE, by=HOSTILE)
    found = queue.get(db, task.id)
    for text in (found.title, str(found.final_text), *found.flags, *(e.text + e.by for e in queue.events(db, 1))):
        text.encode()
        assert "\0" not in text


def test_a_path_is_exact_or_refused(db: Store) -> None:
    with pytest.raises(BadInput, match="not valid UTF-8"):
        add(db, repository="/src/caf\udce9")
    assert queue.counts(db) == {}


def test_a_brief_is_never_cut(db: Store) -> None:
    with pytest.raises(BadInput, match="at most"):
        add(db, brief_text="x" * (16 * 1024 * 1024 + 1))


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=50, deadline=None)
@given(
    step=st.builds(
        NextStep,
        prompt=st.sampled_from(PromptKind),
        candidate=st.none() | words,
        session_id=st.none() | words,
        avoid=st.lists(words, max_size=3).map(tuple),
        note=words,
    ),
    counters=st.builds(Counters, attempts=st.integers(0, 99), backoffs=st.dictionaries(words, st.integers(0, 9))),
    flags=st.lists(words, max_size=3).map(tuple),
    text=st.none() | words,
    at=st.floats(0, 4e9),
)
def test_every_field_comes_back_as_it_went_in(
    step: NextStep, counters: Counters, flags: tuple[str, ...], text: str | None, at: float
) -> None:
    with tempfile.TemporaryDirectory() as folder, store.open(Path(folder) / "d.db") as db:
        task = add(db)
        fields: dict[str, Any] = {
            "next": step,
            "counters": counters,
            "flags": flags,
            "final_text": text,
            "task_base": text,
            "branch": text,
            "not_before": at,
            "difficulty": Difficulty.HARD,
        }
        found = queue.update(db, task.id, at, **fields)
        assert {name: getattr(found, name) for name in fields} == fields


# --- claim ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(("not_before", "due"), [(None, False), (150.0, True), (200.0, True), (201.0, False)])
def test_what_may_be_claimed_at_200(db: Store, status: Status, not_before: float | None, due: bool) -> None:
    task = add(db)
    db.connection.execute("UPDATE task SET status = ?, not_before = ?", (str(status), not_before))
    wanted = (status is Status.QUEUED and (due or not_before is None)) or (status is Status.WAITING and due)
    taken = claim(db, 200.0)
    assert (taken is not None) == wanted
    if taken is not None:
        assert (taken.id, taken.status, taken.owner, taken.not_before) == (task.id, Status.RUNNING, "runner", None)


def test_order_and_jobs(db: Store) -> None:
    for title, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 3)):
        add(db, title, priority=priority)
    taken = [claim(db, jobs=3, owner=f"runner {number}") for number in range(4)]
    assert [task and task.title for task in taken] == ["high", "first", "second", None]
    queue.update(db, 4, 300.0, status=Status.NEEDS_REVIEW)
    last = claim(db, jobs=3)
    assert last is not None
    assert last.title == "low"


def test_only_this_task_or_this_batch(db: Store) -> None:
    for title, batch in (("a", None), ("b", "night"), ("c", None)):
        add(db, title, batch=batch)
    assert claim(db, batch="day") is None
    taken = claim(db, batch="night")
    assert taken is not None
    assert taken.title == "b"
    taken = claim(db, task_id=3)
    assert taken is not None
    assert taken.title == "c"
    assert claim(db, task_id=3) is None


@pytest.mark.parametrize("status", Status)
def test_a_dependency_is_met_by(db: Store, status: Status) -> None:
    needed = add(db, "needed")
    after = add(db, "after", after=(needed.id,))
    accepted = add(db, "accepted", after_accepted=(needed.id,))
    db.connection.execute("UPDATE task SET status = ?, not_before = 1e12 WHERE id = ?", (str(status), needed.id))
    met = set()
    for task in (after, accepted):
        if claim(db, task_id=task.id):
            met.add(task.title)
        assert (queue.blockers(db, task.id) == []) == (task.title in met)
    wanted = {Status.NEEDS_REVIEW: {"after"}, Status.ACCEPTED: {"after", "accepted"}}
    assert met == wanted.get(status, set())


def test_a_task_starts_where_the_one_before_it_ended(db: Store) -> None:
    needed = add(db, "needed")
    later = add(db, "later", after=(needed.id,))
    assert queue.predecessors(db, later.id) == []
    queue.update(db, needed.id, 5.0, result_commit="abc")
    assert queue.predecessors(db, later.id) == [queue.get(db, needed.id)]
    assert queue.predecessors(db, needed.id) == []


def test_two_workers_never_share_a_copy(db: Store) -> None:
    """Cancelled and at once tried again, while the old worker is still being ended: the task waits for its end."""
    task = add(db)
    claim(db)
    attempt = begin(db, task.id)
    queue.update(db, task.id, 310.0, status=Status.CANCELLED)
    queue.update(db, task.id, 311.0, status=Status.QUEUED)
    assert claim(db, 312.0) is None
    assert end(db, attempt, 313.0)
    assert claim(db, 314.0) is not None


_CLAIM_ALL = """
from dispatcher import store
from dispatcher.store import queue
with store.open(sys.argv[1]) as db:
    while task := queue.claim(db, owner=sys.argv[2], now=5.0, jobs=1_000_000):
        print(task.id)
"""


def test_two_dispatchers_claim_a_thousand_tasks(path: Path) -> None:
    """Select-then-update claimed 362 of 1,000 twice; a deferred BEGIN gave "database is locked" in 96 % of writes."""
    with store.open(path) as db:
        with db.write():
            for number in range(1000):
                add(db, f"task {number}")
        outputs = together(_CLAIM_ALL, [(str(path), "one"), (str(path), "two")])
        claimed = [{int(line) for line in output.split()} for output in outputs]
        assert len(claimed[0]) + len(claimed[1]) == 1000
        assert claimed[0] | claimed[1] == set(range(1, 1001))
        assert {task.id for task in queue.running(db) if task.owner == "one"} == claimed[0]


_JOBS = """
from dispatcher import store
from dispatcher.store import queue
with store.open(sys.argv[1]) as db:
    for _ in range(100):
        if task := queue.claim(db, owner=sys.argv[2], now=5.0, jobs=3):
            print(len(queue.running(db)))
            queue.update(db, task.id, 6.0, owner=sys.argv[2], status="needs_review")
"""


def test_jobs_is_a_limit_of_the_home(path: Path) -> None:
    with store.open(path) as db, db.write():
        for number in range(400):
            add(db, f"task {number}")
    outputs = together(_JOBS, [(str(path), str(number)) for number in range(5)])
    seen = [int(line) for output in outputs for line in output.split()]
    assert seen
    assert max(seen) <= 3


# --- recovery ------------------------------------------------------------------------------------------------------


def test_one_runner_takes_over_what_a_dead_one_left(db: Store, path: Path) -> None:
    task = add(db)
    with locks.RunnerLock(path.parent) as dead:
        claim(db, owner=dead.owner)
        assert queue.orphans(db) == []
        assert queue.take_over(db, task.id, owner="somebody", now=5.0) is None
    assert [found.id for found in queue.orphans(db)] == [task.id]
    with locks.RunnerLock(path.parent) as alive:
        assert alive.owner is not None
        taken = queue.take_over(db, task.id, owner=alive.owner, now=5.0)
        assert taken is not None
        assert taken.owner == alive.owner
        assert queue.take_over(db, task.id, owner="too late", now=6.0) is None
        assert queue.orphans(db) == []


def test_only_running_tasks_are_taken_over(db: Store) -> None:
    task = add(db)
    assert queue.take_over(db, task.id, owner="runner", now=5.0) is None


# --- change --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "status"), list(itertools.product(Status, Status)))
def test_which_status_may_follow_which(db: Store, old: Status, status: Status) -> None:
    task = add(db)
    db.connection.execute("UPDATE task SET status = ?, owner = 'x', not_before = 7", (str(old),))
    if old is status:
        same = queue.update(db, task.id, 5.0, status=status)
        assert (same.owner, same.not_before) == ("x", 7.0)
    elif status in TRANSITIONS[old]:
        changed = queue.update(db, task.id, 5.0, status=status, status_reason="because")
        assert (changed.status, changed.owner, changed.not_before) == (status, None, None)
        assert queue.events(db, task.id)[-1].text == "because"
    else:
        with pytest.raises(Refused, match=f"task {task.id} is {old} and cannot become {status}"):
            queue.update(db, task.id, 5.0, status=status)
        assert queue.get(db, task.id).status is old


def test_only_the_owner(db: Store) -> None:
    task = add(db)
    claim(db)
    assert queue.update(db, task.id, 5.0, owner="runner", branch="b").branch == "b"
    with pytest.raises(Refused, match="does not belong to this run"):
        queue.update(db, task.id, 5.0, owner="other", branch="c")
    assert queue.get(db, task.id).branch == "b"


def test_a_wrong_field_is_our_own_mistake(db: Store) -> None:
    task = add(db)
    for name in ("id", "created_at", "colour"):
        with pytest.raises(InternalError, match=name):
            queue.update(db, task.id, 5.0, **dict[str, Any]({name: 5}))


def test_counts_follow_every_change(db: Store) -> None:
    for number in range(5):
        add(db, f"task {number}")
    claim(db)
    claim(db)
    queue.update(db, 1, 5.0, status=Status.NEEDS_REVIEW)
    queue.update(db, 3, 5.0, status=Status.WAITING, not_before=900.0)
    counted = {Status.QUEUED: 2, Status.RUNNING: 1, Status.NEEDS_REVIEW: 1, Status.WAITING: 1}
    assert queue.counts(db) == counted
    assert [task.id for task in queue.running(db)] == [2]
    assert queue.next_wake(db) == 900.0


def test_looking_for_a_task(db: Store) -> None:
    first = add(db, "Fix the login", brief_path="/briefs/fix-login.md")
    second = add(db, "Fix 100%", brief_path="/briefs/fix_all.md")
    for words in ("1", "/briefs/fix-login.md", "fix-login.md", "fix-login", "Fix the login"):
        assert queue.find(db, words) == first
    assert queue.find(db, "fix_all") == second
    for words in ("9", "fix%", "login", ""):
        with pytest.raises(NotFound):
            queue.find(db, words)
    with pytest.raises(NotFound, match="no task 9"):
        queue.get(db, 9)
    assert queue.tasks(db, limit=1) == [second]
    assert queue.tasks(db, status=()) == []


def test_notes_of_people(db: Store) -> None:
    task = add(db)
    queue.add_note(db, task.id, 5.0, "looks odd", "mara")
    queue.add_note(db, task.id, 6.0, "fine after all", "mara")
    assert db.read("SELECT notes FROM v_tasks")[0][0] == "looks odd\nfine after all"
    assert [(event.text, event.by) for event in queue.events(db, task.id)][1:] == [
        ("looks odd", "mara"),
        ("fine after all", "mara"),
    ]


def test_the_journal_tells_the_queue(db: Store, path: Path) -> None:
    """Queue, notes and changes can be read from the journal alone, in order; a torn line hurts only itself."""
    file = journal.path_of(str(path))
    task = add(db, "kept")
    with Path(file).open("ab") as torn:
        torn.write(b'{"kind": "chan')
    claim(db)
    queue.update(db, task.id, 5.0, status=Status.NEEDS_REVIEW, final_text="long")
    queue.add_note(db, task.id, 6.0, "good", "mara")
    told = [{name: value for name, value in entry.items() if name != "at"} for entry in journal.entries(file)]
    assert told[0]["kind"] == "task"
    assert (told[0]["id"], told[0]["title"], told[0]["brief_text"]) == (1, "kept", "# kept\n")
    assert told[1:] == [
        {"kind": "change", "id": 1, "status": "needs_review", "not_before": None},
        {"kind": "note", "id": 1, "note": "good", "by": "mara"},
    ]


def test_a_full_disk_of_the_journal_does_not_undo_the_commit(path: Path, tmp_path: Path) -> None:
    with store.open(path) as db:
        Path(journal.path_of(str(path))).symlink_to("/dev/full")
        task: Task = add(db)
        assert queue.get(db, task.id) == task
