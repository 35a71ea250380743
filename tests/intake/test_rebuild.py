"""The database is lost; the journal and the attempt folders bring it back."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from dispatcher.config import database
from dispatcher.store import holds, queue, reviews
from dispatcher.task import HoldScope, Status
from tests.cli.conftest import home
from tests.cli.story import Story
from tests.e2e.world import World, scripted_world, until

__all__ = ["home"]  # a fixture

LIMITED = {"error": {"status": 429, "message": "Rate limit exceeded. Please try again later.", "retry_after": 7200}}
DONE = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]
NOT_REBUILT = {"id", "updated_at", "owner", "claimed_at"}  # of no use, or told anew


def script(*rules: dict[str, Any]) -> str:
    return "Do what the script says.\n\n```script\n" + json.dumps(rules) + "\n```\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two tasks that ran (one over a rate limit; one was rejected then), and one that is paused."""
    made = scripted_world(tmp_path)
    for name in ("one", "two"):
        body = script({"model": "scripted/s1", "steps": [LIMITED]}, {"steps": DONE})
        made.add(made.brief(name, f"# {name}\n\n{body}"))
    assert made.run("run", "-j", "1").returncode == 0
    made.add(made.brief("later", "Wait.", priority=3))
    made.run("pause", "3", check=True)
    made.run("review", "1", "--reject", "--note", "no good", check=True)
    return made


def lose(world: World, *also: str) -> None:
    for name in ("", "-wal", "-shm", *also):
        (world.home / "logs" / f"dispatcher.db{name}").unlink(missing_ok=True)


def table(world: World, name: str) -> list[dict[str, Any]]:
    rows = world.rows(f"select * from {name} order by id")
    for row in rows:
        if row.get("task_base"):  # the same, looked at again when the first attempt started
            row["task_base"] = {**json.loads(row["task_base"]), "taken_at": None}
    return [{key: value for key, value in row.items() if key not in NOT_REBUILT} for row in rows]


def differences(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[Any]:
    assert len(found) == len(wanted)
    pairs = zip(found, wanted, strict=True)
    return [(key, now[key], then[key]) for now, then in pairs for key in then if now.get(key) != then[key]]


def test_everything_that_matters_comes_back(world: World) -> None:
    before = {name: table(world, name) for name in ("task", "attempt", "hold", "review")}
    checks = world.rows("select * from check_result")
    lose(world)
    refused = world.run("status")
    assert "import --rebuild" in refused.stderr, "no command begins an empty queue in its place"
    said = world.run("import", "--rebuild", check=True)
    assert "3 tasks and 3 attempts are back" in said.stderr
    for name, rows in before.items():
        assert differences(table(world, name), rows) == [], name
    assert world.rows("select * from check_result") == checks
    rolled = world.rows("select sum(attempts) as n from rollup")[0]["n"]
    assert rolled == len(before["attempt"])
    assert world.run("import", "--rebuild").returncode == 2, "there is one now"
    world.run("resume", "3", check=True)
    assert world.task(3)["status"] == "queued"


def test_without_the_journal_the_folders_tell_what_ran(world: World) -> None:
    before = world.rows("select * from attempt order by id")
    lose(world, ".journal.jsonl")
    said = world.run("import", "--rebuild", check=True)
    assert "there is no journal" in said.stderr
    after = world.rows("select * from attempt order by id")
    for name in ("task_id", "number", "outcome", "candidate", "credential", "model", "prompt", "marker", "exit_code"):
        assert [row[name] for row in after] == [row[name] for row in before], name
    tasks = world.rows("select * from task order by id")
    assert [row["id"] for row in tasks] == [1, 2]
    assert {row["status"] for row in tasks} == {"needs_human"}, "nothing runs by itself on a guess"
    assert "Do what the script says." in tasks[0]["brief_text"]


def test_an_attempt_that_nobody_judged_needs_a_person(world: World) -> None:
    """The journal ends before the last verdict: the task must not simply be run again."""
    journal = world.home / "logs" / "dispatcher.db.journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    ended = [place for place, line in enumerate(lines) if b'"kind": "ended"' in line]
    journal.write_bytes(b"".join(lines[: ended[-1]]) + b'{"at": 1, "kind": "torn')
    lose(world)
    world.run("import", "--rebuild", check=True)
    row = world.task(2)
    assert row["status"] == "needs_human"
    assert "nobody has judged" in row["status_reason"]
    last = world.attempts(2)[-1]
    assert last["outcome"] == "completed"
    assert last["verdict"] is None


def test_people_s_words_are_in_the_journal(home: Path) -> None:
    """Holds lifted, notes, reviews and edits, without any attempt."""
    from dispatcher.intake import rebuild

    story = Story(home)
    task = story.task("First", batch="night")
    story.task("Second", after=(task.id,))
    queue.add_note(story.store, task.id, 5.0, "one", "me")
    queue.add_note(story.store, task.id, 6.0, "two", "me")
    held = holds.add(story.store, HoldScope.CANDIDATE, "small", None, "why", "me", 7.0)
    holds.lift(story.store, held.id, "me", 8.0)
    story.claim(task)
    story.rest(task, Status.NEEDS_REVIEW, "complete")
    reviews.decide(story.store, queue.get(story.store, task.id), 9.0, Status.ACCEPTED, by="me", text="fine")
    names = ("task", "hold", "review", "dependency", "batch")
    before = {name: [dict(row) for row in story.store.read(f"SELECT * FROM {name}")] for name in names}
    story.store.close()
    file = database(home)
    for name in ("", "-wal", "-shm"):
        Path(f"{file}{name}").unlink(missing_ok=True)
    done = rebuild.rebuild(file, 10.0)
    assert (done.tasks, done.attempts, done.notes) == (2, 0, ())
    again = Story(home)
    for name, rows in before.items():
        found = [dict(row) for row in again.store.read(f"SELECT * FROM {name}")]
        for row in (*rows, *found):
            for key in ("updated_at", "claimed_at", "created_at", "lifted_at"):
                row.pop(key, None)
        assert found == rows, name
    again.store.close()


def test_a_journal_of_two_queues_brings_both_back(home: Path) -> None:
    """The database was lost and nobody noticed: a second queue counted from 1 again, into the same journal."""
    from dispatcher.intake import rebuild
    from dispatcher.store import history

    file = database(home)
    journal, first = Path(f"{file}.journal.jsonl"), Path(f"{file}.first")
    told = []
    for title, folder in (("One", "old"), ("Two", "new")):
        story = Story(home)
        task = story.task(title)
        after = story.task(f"{title} and more", after=(task.id,))
        story.claim(task)
        fields = {"prompt": "first", "candidate": "small", "harness": "scripted", "model": "m", "credential": "zen"}
        begun = history.begin_attempt(
            story.store, task_id=task.id, **fields, billing="free", folder=folder, marker=f"1-{folder}", started_at=1.0
        )
        history.end_attempt(
            story.store, begun.id, 2.0, attempt_fields={"final_text": ""}, task_fields={}, event="", holds=()
        )
        held = holds.add(story.store, HoldScope.CANDIDATE, folder, None, "why", "me", 7.0)
        holds.lift(story.store, held.id, "me", 8.0)
        queue.add_note(story.store, task.id, 5.0, f"about {title}", "me")
        story.rest(task, Status.NEEDS_REVIEW, "complete")
        reviews.decide(story.store, queue.get(story.store, task.id), 9.0, Status.ACCEPTED, by="me", text=title)
        assert (task.id, after.id) == (1, 2)
        story.store.close()
        for name in ("", "-wal", "-shm"):
            Path(f"{file}{name}").unlink(missing_ok=True)
        told.append(journal.read_bytes())
        journal.rename(first)
    journal.write_bytes(b"".join([*told, told[1]]))  # and lines that are there twice say nothing new

    done = rebuild.rebuild(file, 10.0)
    assert (done.tasks, done.attempts) == (4, 2)
    assert [line for line in done.notes if "two tasks" in line] == [
        "the journal tells of two tasks 1: the later one is task 3 now",
        "the journal tells of two tasks 2: the later one is task 4 now",
    ]
    again = Story(home)
    rows = again.store.read("SELECT id, title, status FROM task ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (1, "One", "accepted"),
        (2, "One and more", "queued"),
        (3, "Two", "accepted"),
        (4, "Two and more", "queued"),
    ]
    assert [tuple(row) for row in again.store.read("SELECT task_id, needs_task_id FROM dependency")] == [(2, 1), (4, 3)]
    attempts = again.store.read("SELECT task_id, folder, ended_at FROM attempt ORDER BY id")
    assert [tuple(row) for row in attempts] == [(1, "old", 2.0), (3, "new", 2.0)]
    lifted = again.store.read("SELECT key FROM hold WHERE lifted_at IS NOT NULL ORDER BY id")
    assert [row["key"] for row in lifted] == ["old", "new"]
    assert [tuple(row) for row in again.store.read("SELECT task_id, text FROM review")] == [(1, "One"), (3, "Two")]
    again.store.close()


def test_every_kind_of_the_journal_is_understood() -> None:
    """What another room begins to write down must come back, too."""
    import re

    from dispatcher import store
    from dispatcher.intake import rebuild

    folder = Path(store.__file__).parent
    kinds = {kind for file in folder.glob("*.py") for kind in re.findall(r"\.journal\(\s*\"(\w+)\"", file.read_text())}
    text = Path(rebuild.__file__).read_text()
    assert kinds >= {"task", "approval", "hold"}
    assert {kind for kind in kinds if f'"{kind}"' not in text} == set()


def test_an_approval_that_was_used_stays_used(home: Path) -> None:
    """Rebuilt as "approved" it would let the call through a second time."""
    from dispatcher.intake import rebuild
    from dispatcher.store import approvals, history

    story = Story(home)
    task = story.task("Push it")
    story.begin(task)
    [attempt] = history.open_attempts(story.store)
    asked = {"at": 1.0, "digest": "d", "tool": "bash", "input": {"command": "git push"}, "folder": "/r", "rule": "push"}
    call = approvals.ask(story.store, attempt, asked, None)
    assert call is not None
    approvals.answer(story.store, call.id, 2.0, approve=True, by="me", where="here")
    approvals.consume(story.store, call.id, 3.0)
    before = [dict(row) for row in story.store.read("SELECT * FROM approval")]
    story.store.close()
    file = database(home)
    for name in ("", "-wal", "-shm"):
        Path(f"{file}{name}").unlink(missing_ok=True)
    rebuild.rebuild(file, 10.0)
    again = Story(home)
    assert [dict(row) for row in again.store.read("SELECT * FROM approval")] == before
    assert before[0]["status"] == "consumed"
    again.store.close()


# --- two queues of one home, whose folders lie beside each other ---------------------------------------------------


def queue_of(world: World, *names: str) -> list[str]:
    """A queue that begins at 1, all of it done; the paths of the copies."""
    for name in names:
        steps = [{"write": {"path": "a.txt", "content": name}}, {"commit": f"work of {name}"}, {"text": "Done."}]
        world.add(world.brief(name, f"# {name}\n\n{script({'steps': steps})}"))
    world.run("run", "-j", "1", check=True)
    return [row["copy_path"] for row in world.rows("select copy_path from task order by id")]


def two_queues(tmp_path: Path, *, kept: bool, cut: bool = False) -> tuple[World, list[Path]]:
    """The logs went away without being noticed, and came back later: one journal, attempts of one number side by side.
    `kept`: the copy of the first queue was still there. `cut`: its journal ends before its attempt was judged."""
    world = scripted_world(tmp_path)
    logs, away = world.home / "logs", world.home / "away"
    paths = queue_of(world, "old")
    logs.rename(away)
    if not kept:
        shutil.rmtree(paths[0])
    paths += queue_of(world, "new", "newer")
    name = "dispatcher.db.journal.jsonl"
    told = (away / name).read_bytes().splitlines(keepends=True)
    if cut:
        told = told[: next(place for place, line in enumerate(told) if b'"kind": "ended"' in line)]
    else:
        (away / "1/1").rename(logs / "1/1.before-5")
    (logs / name).write_bytes(b"".join(told) + (logs / name).read_bytes())
    shutil.rmtree(away)
    lose(world)
    world.run("import", "--rebuild", check=True)
    return world, [Path(path) for path in paths]


def over(world: World, task: int) -> None:
    """As if a person had accepted it long ago."""
    with sqlite3.connect(world.home / "logs/dispatcher.db") as connection:
        connection.execute("update task set status = 'accepted', updated_at = 1e9 where id = ?", (task,))
    connection.close()


@pytest.mark.parametrize("kept", [True, False], ids=["a copy each", "one path for both"])
def test_prune_after_two_queues_became_one_takes_nothing_of_another_task(tmp_path: Path, kept: bool) -> None:
    """Task 2 was a second task 1, task 3 a second task 2: their logs and copies lie in folders of other numbers."""
    world, (old, new, newer) = two_queues(tmp_path, kept=kept)
    assert [row["title"] for row in world.rows("select title from task order by id")] == ["old", "new", "newer"]
    assert (old == new) is not kept
    logs = world.home / "logs"
    places = {1: logs / "1/1.before-5", 2: logs / "1/1", 3: logs / "2"}
    copies = {1: old, 2: new, 3: newer}
    for gone in (1, 2, 3):
        over(world, gone)
        would = world.run("prune", "--dry-run", "--json", check=True).stdout
        assert {row["task"] for row in json.loads(would)} == {gone}
        world.run("prune", check=True)
        assert not places[gone].exists()
        for task in range(gone + 1, 4):
            assert (places[task] if task == 3 else places[task] / "stdout").exists(), (gone, task)
            assert (copies[task] / "a.txt").exists(), (gone, task)
        assert copies[gone].exists() is (gone == 1 and not kept), "the path is another task's by now"
    assert not (logs / "1").exists()
    assert [world.git("show", f"refs/dispatcher/{ref}:a.txt") for ref in ("1/1", "1/1.2", "2/1")] == [
        "old",
        "new",
        "newer",
    ]


def test_refs_go_with_the_task_whose_rows_name_them_and_nobodys_are_kept(tmp_path: Path) -> None:
    """Task 2 was a second task 1: its refs bear the number 1, beside those of the first."""
    world, _ = two_queues(tmp_path, kept=True)
    world.git("update-ref", "refs/dispatcher/77/1", "HEAD")
    all_refs = ("for-each-ref", "--format=%(refname)", "refs/dispatcher")
    refs = set(world.git(*all_refs).splitlines())
    made = time.time()
    until(lambda: time.time() > made + 2.5, "refs are dated in whole seconds")
    over(world, 2)
    said = world.run("prune", "--refs", "--older", "1s", "--dry-run", check=True)
    assert f"refs that are kept: 1 in {world.repo} that no task here names" in said.stderr
    assert said.stderr.rstrip().endswith(": refs/dispatcher/77/1")
    world.run("prune", "--refs", "--older", "1s", "--yes", check=True)
    gone = refs - set(world.git(*all_refs).splitlines())
    assert "refs/dispatcher/1/1.2" in gone
    assert {ref.rpartition("-")[0] for ref in gone - {"refs/dispatcher/1/1.2"}} == {"refs/dispatcher/1/base"}
    assert {"refs/dispatcher/1/1", "refs/dispatcher/2/1", "refs/dispatcher/77/1"} < refs - gone


def test_a_ref_that_another_task_names_too_stays_until_that_one_is_over(tmp_path: Path) -> None:
    world, _ = two_queues(tmp_path, kept=True)
    made = time.time()
    until(lambda: time.time() > made + 2.5, "refs are dated in whole seconds")
    ref = "refs/dispatcher/2/1"
    with sqlite3.connect(world.home / "logs/dispatcher.db") as connection:
        connection.execute("update attempt set snapshot_ref = ? where task_id = 1", (ref,))
    connection.close()
    over(world, 3)
    world.run("prune", "--refs", "--older", "1s", "--yes", check=True)
    assert world.git("show", f"{ref}:a.txt") == "newer"
    over(world, 1)
    world.run("prune", "--refs", "--older", "1s", "--yes", check=True)
    assert ref not in world.git("for-each-ref", "--format=%(refname)")


def test_an_attempt_of_a_lost_queue_without_its_folder_is_over(tmp_path: Path) -> None:
    """Left open it would be settled by what another task's worker left in the folder of the same name."""
    world, _ = two_queues(tmp_path, kept=True, cut=True)
    rows = world.rows("select task_id, outcome, ended_at from attempt order by id")
    assert [(row["task_id"], row["outcome"]) for row in rows] == [(1, "lost"), (2, "completed"), (3, "completed")]
    assert all(row["ended_at"] is not None for row in rows)
    assert world.task(1)["status"] == "needs_human"
    assert world.run("run").returncode == 0
    assert world.rows("select task_id, outcome, ended_at from attempt order by id") == rows
