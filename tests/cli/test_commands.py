"""Each command once for what it is for, and once for what a person may get wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher import money
from dispatcher.cli import tail
from dispatcher.config import initial
from dispatcher.store import holds, queue
from dispatcher.store.locks import RunnerLock
from dispatcher.task import Candidate, Expect, HoldScope, Status
from tests.cli.conftest import Said
from tests.cli.story import LATER, Story

Run = Callable[..., Said]
Write = Callable[..., Path]

REPORT = "---\nexpect: report\n---\n# {title}\n\nSay something.\n"
HOSTILE = "evil \x1b[2J\u202e title"
BUSY = (
    "no worker would start now: load 9.0 per core is above max_load_per_core 4; "
    "a run waits up to 15 min for the host, from cron it ends with 75\n"
)


@pytest.fixture
def story(home: Path) -> Iterator[Story]:
    found = Story(home)
    yield found
    found.store.close()


def busy_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dispatcher.host.admission",
        lambda limits, paths, starting=0: "load 9.0 per core is above max_load_per_core 4",
    )


def status_of(story: Story, task: int) -> Status:
    return queue.get(story.store, task).status


# --- add, new, edit ---


def test_add_prints_the_difficulty_with_its_reason(home: Path, repository: Path, run: Run, brief: Write) -> None:
    said = run("add", str(brief("# Fix a typo\n\nIn README.\n")), "--repo", str(repository))
    assert said == Said(0, 'task 1 added: Fix a typo  [trivial: the rule on line 14: title has "typo"]\n', "")


def test_the_same_brief_is_queued_once(story: Story, repository: Path, run: Run, brief: Write) -> None:
    path = str(brief("# One\n\nText.\n"))
    words = ["add", path, "--repo", str(repository)]
    run(*words)
    assert run(*words).out == "already there as task 1 (queued): One\n"
    queue.update(story.store, 1, 1.0, status=Status.CANCELLED)
    assert run(*words).out == "done as task 1 (cancelled): One  (--again queues it anew)\n"
    assert run(*words, "--again").out.startswith("task 2 added: One")


def test_a_brief_that_changed_before_it_ran_replaces_its_task(
    story: Story, repository: Path, run: Run, brief: Write
) -> None:
    words = ["add", str(brief("# One\n\nText.\n")), "--repo", str(repository)]
    run(*words)
    brief("# Two\n\nText.\n")
    assert run(*words).out.startswith("task 1 updated: Two")


def test_add_takes_a_folder_but_not_its_readme(home: Path, run: Run, brief: Write, tmp_path: Path) -> None:
    for name in ("b", "a"):
        brief(REPORT.format(title=name), f"briefs/{name}.md")
    brief("# About these briefs\n", "briefs/README.md")
    brief("not a brief", "briefs/notes.txt")
    said = run("add", str(tmp_path / "briefs"), "--json")
    assert [(row["id"], row["title"]) for row in json.loads(said.out)] == [(1, "a"), (2, "b")]


def test_add_reads_stdin(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher.cli", "add", "-"],
        input=REPORT.format(title="From a pipe"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("task 1 added: From a pipe")


def test_which_repository(story: Story, repository: Path, tmp_path: Path, run: Run, brief: Write) -> None:
    """The brief's own (seen from its folder) wins over --repo, which wins over the current folder."""
    inside = repository / "src" / "deep"
    inside.mkdir(parents=True)
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    run("add", str(brief("---\nrepo: other\n---\n# Own\n", "own.md")), "--repo", str(repository))
    run("add", str(brief("# Option\n", "option.md")), "--repo", str(inside))
    os.chdir(inside)
    run("add", str(brief("# Here\n", "here.md")))
    run("add", str(brief("---\nrepo: none\nexpect: report\n---\n# None\n", "none.md")))
    found = [task.repository for task in queue.tasks(story.store)]
    assert found == [str(other), str(repository), str(repository), None]


def test_after_names_a_task_by_its_brief(story: Story, run: Run, brief: Write, tmp_path: Path) -> None:
    brief(REPORT.format(title="First"), "briefs/1-first.md")
    brief(REPORT.format(title="Then").replace("expect", "after: [1-first]\nexpect"), "briefs/2-then.md")
    assert run("add", str(tmp_path / "briefs")).code == 0
    assert [blocker.task_id for blocker in queue.blockers(story.store, 2)] == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "brief.md:1: the brief has no body"),
        (b"---\ntitle: only this\n---\n\n", "the brief has no body"),
        (b"# ok\n\xff\xfe broken\n", "brief.md:2: is not UTF-8"),
        (b"---\ndifficulty: hardish\n---\n# x\n", "brief.md:2: "),
        (b"---\ndifficultly: hard\n---\n# x\n", "brief.md:2: "),
        (b"---\npriority: 1\npriority: 2\n---\n# x\n", "brief.md:3: "),
        (b"# NUL \x00\n", "brief.md:1: the brief holds a NUL character"),
        (b"# no repository here\n", "which repository is it for?"),
        (b"---\nrepo: /nowhere\n---\n# x\n", "there is no folder /nowhere"),
    ],
)
def test_a_bad_brief_is_one_line_and_nothing_is_queued(
    story: Story, run: Run, brief: Write, text: bytes, message: str
) -> None:
    good = brief(REPORT.format(title="good"), "good.md")
    said = run("add", str(good), str(brief(text)))
    assert said.code == 2
    assert message in said.err.splitlines()[0]
    assert len(said.err.splitlines()) <= 2
    assert queue.tasks(story.store) == []


@pytest.mark.parametrize("kind", ["missing", "plain", "bare"])
def test_a_repository_that_is_none(home: Path, run: Run, brief: Write, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / kind
    if kind == "plain":
        folder.mkdir()
    if kind == "bare":
        subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    said = run("add", str(brief("# x\n")), "--repo", str(folder))
    words = {"missing": "there is no folder", "plain": "is not in a git repository", "bare": "is a bare repository"}
    assert said.code == 2
    assert words[kind] in said.err


def test_a_missing_file_and_an_empty_folder(home: Path, run: Run, tmp_path: Path) -> None:
    assert run("add", str(tmp_path / "no.md")).err.startswith(f"error: {tmp_path / 'no.md'}: cannot be read: No such")
    (tmp_path / "empty").mkdir()
    assert "there is no brief (*.md)" in run("add", str(tmp_path / "empty")).err


def test_hidden_files_are_no_briefs(home: Path, run: Run, brief: Write, tmp_path: Path) -> None:
    """What editors and other machines leave: a lock that is a link to nowhere, a resource fork."""
    brief("---\nexpect: report\n---\n# Say it\n", "briefs/one.md")
    (tmp_path / "briefs" / ".#one.md").symlink_to("somebody@somewhere.1234")
    (tmp_path / "briefs" / "._one.md").write_bytes(b"\0\5\x16\7")
    said = run("add", str(tmp_path / "briefs"))
    assert (said.code, said.out.count("added")) == (0, 1)
    assert run("add", str(tmp_path / "briefs" / "._one.md")).code == 2, "who names it means it"


def test_a_run_works_on_the_queue_whatever_is_added(home: Path, run: Run, brief: Write, tmp_path: Path) -> None:
    run("add", str(brief("---\nexpect: report\n---\n# Say it\n")))
    (tmp_path / "empty").mkdir()
    said = run("run", "--dry-run", "--add", str(tmp_path / "empty"))
    assert (said.code, said.err) == (0, "")
    assert "task 1: Say it" in said.out
    for wrong in (tmp_path / "none", "n" * 300):
        said = run("run", "--dry-run", "--add", str(wrong), "--add", str(tmp_path / "empty"))
        assert (said.code, said.err.count("error: "), said.err.count("\n")) == (2, 1, 1)
        assert "task 1: Say it" in said.out


@pytest.mark.parametrize(
    ("rule", "words", "hint"),
    [
        ("{tol: bash}", "an approval rule has no 'tol'", "known: name, tool, command"),
        ("{tool: bash, do: maybe}", "`do` is 'maybe'", "it is allow, ask or deny"),
        ("{tool: bash, remember: always}", "`remember` can only be `never`", "leave it out"),
        ("{command: [git push, git pull]}", "`command` is one text", "write a rule for each"),
        ("{command: git push, path: a}", "`command` and `path` do not go together", "write two rules"),
        ("{tool: 3}", "`tool` must be a text", "write it in quotes"),
        ("{network: git}", "`network` can only be true", "leave it out"),
        ("git push", "must be a mapping", ""),
    ],
)
def test_an_approval_rule_that_means_nothing(
    story: Story, run: Run, brief: Write, rule: str, words: str, hint: str
) -> None:
    """Refused now, not when the task is about to start."""
    path = brief(f"---\nexpect: report\napprovals:\n  - {{tool: edit}}\n  - {rule}\n---\n# x\n")
    said = run("add", str(path))
    lines = said.err.splitlines()
    assert (said.code, len(lines)) == (2, 2), said.err
    assert lines[0].startswith(f"error: {path}")
    assert words in lines[0]
    assert lines[1].startswith("hint: ")
    assert hint in lines[1]
    assert queue.tasks(story.store) == []


def test_new_writes_a_brief_that_parses(home: Path, run: Run) -> None:
    for title in ("Fix the login redirect", 'Odd: "quotes", #hash & [brackets]', "yes", "ünïcode \U0001f600"):
        said = run("new", title)
        assert said.code == 0, said.err
        path = Path(said.out.strip())
        unfilled = run("add", str(path))
        assert (unfilled.code, "is still the template of `dispatcher new`" in unfilled.err) == (2, True)
        assert "hint: say what is to be done" in unfilled.err
        path.write_text(path.read_text(encoding="utf-8").replace("What is to be done, and why.", "Mend it."))
        added = run("add", str(path), "--json")
        assert "which repository" in added.err  # everything else was read
    assert "is already there" in run("new", "Fix the login redirect").err


def test_a_new_brief_is_named_also_without_an_editor(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    said = run("new", "Fix it", "--edit")
    assert (said.code, said.out) == (2, "briefs/fix-it.md\n")
    assert "hint: set EDITOR" in said.err


def test_edit_changes_the_stored_brief(story: Story, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = story.task("Old")
    editor(tmp_path, monkeypatch, "---\ndifficulty: hard\nexpect: report\n---\n# New title\n")
    said = run("edit", str(task.id))
    assert said.out == f"task {task.id}: New title  [hard: the brief says so]\n"
    assert queue.get(story.store, task.id).title == "New title"


def test_what_was_typed_is_kept_when_it_cannot_be_used(
    story: Story, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    task = story.task("Old")
    editor(tmp_path, monkeypatch, "---\nnonsense: 1\n---\n# mine\n")
    said = run("edit", str(task.id))
    [kept] = tmp_path.glob("dispatcher-task-*.md")
    assert said.code == 2
    assert str(kept) in said.err
    assert "# mine" in kept.read_text(encoding="utf-8")
    assert queue.get(story.store, task.id).title == "Old"


def test_a_running_task_is_not_edited(story: Story, run: Run) -> None:
    task = story.task()
    story.claim(task)
    said = run("edit", str(task.id))
    assert (said.code, said.err.splitlines()[1]) == (2, f"hint: dispatcher pause {task.id} first")


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """An EDITOR that replaces the file's text."""
    script = tmp_path / "editor"
    (tmp_path / "text").write_text(text, encoding="utf-8")
    script.write_text(f"#!/bin/sh\ncp '{tmp_path}/text' \"$1\"\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(script))


# --- status, log, show, tail, work ---


def test_looking_makes_nothing(tmp_path: Path, home: Path, run: Run) -> None:
    nowhere = tmp_path / "nothing-in-it"
    nowhere.mkdir()
    hint = "it has no models.yaml: dispatcher init"
    assert run("status", "--home", str(nowhere)).out == f"{nowhere}: nothing queued yet ({hint})\n"
    for words in (["log"], ["show", "1"], ["holds"], ["tail", "1"], ["cancel", "1"]):
        said = run(*words, "--home", str(nowhere))
        assert (said.code, said.err.splitlines()[0]) == (2, f"error: nothing was ever queued in {nowhere}")
        assert said.err.splitlines()[1] == f"hint: {hint}"
    assert list(nowhere.iterdir()) == []


def test_status(story: Story, run: Run) -> None:
    running, waiting, stuck = story.task("Works"), story.task("Waits"), story.task(HOSTILE)
    story.begin(running)
    story.claim(waiting)
    story.rest(waiting, Status.WAITING, "held", not_before=LATER)
    story.claim(stuck)
    story.rest(stuck, Status.NEEDS_HUMAN, "said done, changed nothing")
    holds.add(story.store, HoldScope.CANDIDATE, "large", None, "no such model", "dispatcher", 1.0)
    found = json.loads(run("status", "--json").out)
    assert found["counts"] == {"running": 1, "waiting": 1, "needs_human": 1}
    assert [(row["id"], row["candidate"], row["prompt"]) for row in found["running"]] == [(1, "small", "first")]
    assert [(row["id"], row["reason"]) for row in found["person"]] == [(3, "said done, changed nothing")]
    assert [(row["key"], row["until"]) for row in found["holds"]] == [("large", None)]
    assert found["next_wake"] == LATER
    text = run("status").out
    assert "1 running (its run is gone; the next `dispatcher run` goes on), 1 waiting, 1 needs_human" in text
    with RunnerLock(story.home / "logs") as alive:
        story.store.connection.execute("UPDATE task SET owner = ? WHERE id = 1", (alive.owner,))
        assert "1 running, 1 waiting, 1 needs_human" in run("status").out
    assert "evil \\e[2J\\u202e title" in text
    assert "a person lifts it" in text


def test_a_busy_host_is_said_wherever_a_task_looks_ready(
    story: Story, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run would wait for a quarter of an hour without one more word."""
    assert json.loads(run("status", "--json").out)["host_busy"] is None
    assert run("ready").err == ""
    busy_host(monkeypatch)
    assert "no worker would start" not in run("status").out, "nothing would start anyway"
    story.task("One")
    assert run("status").out.splitlines(keepends=True)[1] == BUSY
    assert BUSY in run("watch", "--once").out
    said = run("ready")
    assert said.err == BUSY
    assert "would go to small, once the host is free" in said.out
    assert run("ready", "--csv").err == BUSY
    for rows in (json.loads(run("status", "--json").out), *json.loads(run("ready", "--json").out)):
        assert rows["host_busy"] == "load 9.0 per core is above max_load_per_core 4"
    queue.update(story.store, 1, 1.0, status=Status.PAUSED)
    assert "no worker would start" not in run("status").out
    assert run("ready").err == ""


def test_status_measures_against_the_limits_as_they_are_written_now(story: Story, run: Run) -> None:
    story.task("One")
    assert "no worker would start" not in run("status").out
    models = story.home / "models.yaml"
    models.write_text(models.read_text("utf-8").replace("min_free_memory: 1MiB", "min_free_memory: 900TiB"), "utf-8")
    for _ in range(2):  # as it is read, and as it is remembered
        assert "is below min_free_memory 921600 GiB; a run waits" in run("status").out


def test_status_says_why_no_run_would_begin(
    story: Story, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    story.task("One")
    models = story.home / "models.yaml"
    good = models.read_text("utf-8")
    models.write_text(good.replace("limits:", "limit:"), "utf-8")
    for words in (["status"], ["watch", "--once"]):
        said = run(*words)
        assert said.code == 0
        assert f"no run would begin now: {models}:15: unknown key 'limit'" in said.out
    models.write_text(good, "utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert "was not made by `dispatcher init` on this machine" in json.loads(run("status", "--json").out)["refused"]


def test_what_stays_behind_one_that_was_given_up_is_named(story: Story, run: Run) -> None:
    """Nothing ever claims it: without a word it would lie in the queue for ever. A run says it in one line a group."""
    gone = story.task("Gone")
    queue.update(story.store, gone.id, 1.0, status=Status.CANCELLED)
    broken = story.task("Broken")
    story.claim(broken)
    story.rest(broken, Status.FAILED, "our fault")
    for number in range(7):
        story.task(f"Then {number}", after=(gone.id,))
    story.task("Last", after=(broken.id, gone.id))

    text = run("status").out
    assert "waits for task 1, which is cancelled: dispatcher retry 1, or cancel 3" in text
    reasons = {row["id"]: row["reason"] for row in json.loads(run("status", "--json").out)["person"]}
    assert reasons[9] == "waits for task 1, which is cancelled: dispatcher retry 1, or cancel 9"
    assert reasons[10] == "waits for task 2, which is failed: dispatcher retry 2, or cancel 10"

    said = run("run")
    assert said.code == 0
    assert said.out.splitlines() == [
        "nothing to do",
        "tasks 3, 4, 5, 6, 7 and 3 more wait for task 1, which is cancelled: dispatcher retry 1, or cancel them",
        "task 10 waits for task 2, which is failed: dispatcher retry 2, or cancel 10",
    ]
    [group, other] = json.loads(run("run", "--json").out)["left_behind"]
    assert (group["needs"], group["status"], group["tasks"]) == (1, "cancelled", [3, 4, 5, 6, 7, 8, 9, 10])
    assert other["tasks"] == [10]
    assert run("run", "--task", "10").out.count("task 10 waits for task") == 2
    assert run("cancel", *map(str, range(3, 9))).code == 0
    assert "tasks 9, 10 wait for task 1, which is cancelled: dispatcher retry 1, or cancel 9 10" in run("run").out


def test_status_lists_what_is_ready_for_review_and_every_task_when_asked(story: Story, run: Run) -> None:
    for number in range(22):
        task = story.task(f"Done {number + 1:02d}")
        story.claim(task)
        story.rest(task, Status.NEEDS_REVIEW, "one commit")
    story.task("Not yet")
    text = run("status").out
    assert "Ready for review" in text
    assert "Done 20" in text
    assert "Done 21" not in text
    assert "and 2 more: dispatcher status --all" in text
    every = run("status", "--all").out
    assert all(f"{number}" in every and f"Done {number:02d}" in every for number in range(1, 23))
    assert "Not yet" in every
    assert len(json.loads(run("status", "--all", "--json").out)["tasks"]) == 23
    assert "hint: dispatcher status --all lists the tasks" in run("show", "99").err


def test_review_of_what_was_not_begun_is_refused(story: Story, run: Run) -> None:
    story.task()
    said = run("review", "1")
    assert (said.code, said.out) == (2, "")
    assert "error: task 1 is queued: nothing was done yet, so there is nothing to review" in said.err


def test_tail_of_a_silent_attempt_says_so(story: Story, run: Run) -> None:
    folder = story.begin(story.task())
    assert "the worker wrote nothing to its stdout yet" in run("tail", "1").err
    (folder / "stderr").unlink()
    assert "prune removes old attempt folders" in run("tail", "1", "--stderr").err


def test_show_counts_in_words_and_names_the_delivered_commit(story: Story, run: Run) -> None:
    task = story.task()
    story.begin(task)
    story.end(task, Status.NEEDS_REVIEW, "one commit")
    queue.update(story.store, task.id, 1.0, branch="dispatcher/1-fix-it", result_commit="abc123")
    for command in ("show", "review"):
        assert "delivered" in run(command, "1").out
        assert "as abc123 on dispatcher/1-fix-it" in run(command, "1").out
    assert "1 start, 0 redispatches, 0 finish prompts" in run("show", "1").out


def test_log_and_its_filters(story: Story, run: Run) -> None:
    first, second = story.task("First"), story.task(HOSTILE)
    story.begin(first)
    story.end(first, Status.NEEDS_REVIEW, "one commit")
    story.begin(second, candidate="large")
    rows = json.loads(run("log", "--json").out)
    assert [(row["task"], row["candidate"], row["status"]) for row in rows] == [
        (2, "large", "running"),
        (1, "small", "needs_review"),
    ]
    assert (rows[1]["tokens"], rows[1]["list_price_usd"], rows[1]["seconds"]) == (1234, 0.25, 65.0)
    assert (rows[0]["tokens"], rows[0]["outcome"]) == (None, None)
    for words in (["--task", "1"], ["--candidate", "small"], ["--status", "needs_review"]):
        assert [row["task"] for row in json.loads(run("log", "--json", *words).out)] == [1]
    assert [row["task"] for row in json.loads(run("log", "--json", "-n", "1").out)] == [2]
    assert run("log", "--csv").out.splitlines()[0].startswith("task,attempt,title,status,difficulty")
    assert "evil \\e[2J\\u202e title" in run("log").out
    assert run("log", "--status", "done").code == 2


def test_show_tells_everything_about_a_task(story: Story, run: Run) -> None:
    task = story.task("First")
    folder = story.begin(task)
    story.end(task, Status.NEEDS_REVIEW, "one commit", final_text=f"I did it {HOSTILE}", proof="exit 0")
    text = run("show", "1", "--brief").out
    for piece in ("needs_review: one commit", "easy (the brief says so)", "check       passed: make test", str(folder)):
        assert piece in text
    assert "# First\n\nDo it." in text
    assert "\x1b" not in text
    found = json.loads(run("show", "1", "--json").out)
    assert found["task"]["status"] == "needs_review"
    assert found["attempts"][0]["checks"][0]["command"] == "make test"
    assert [event["kind"] for event in found["events"]] == ["added", "claimed", "attempt_started", "attempt_ended"]


def test_there_is_no_such_task(story: Story, run: Run) -> None:
    for words in (["show", "9"], ["tail", "9"], ["work", "9"], ["edit", "9"], ["retry", "9"], ["run", "--task", "9"]):
        said = run(*words)
        assert (said.code, said.err.splitlines()[0]) == (2, "error: there is no task 9"), words


def test_work_prints_the_copy(story: Story, run: Run) -> None:
    task = story.task()
    assert run("work", "1").code == 2
    queue.update(story.store, task.id, 1.0, copy_path="/copies/1")
    assert run("work", "1").out == "/copies/1\n"


def test_tail_renders_events_and_follows_to_the_end(story: Story, run: Run) -> None:
    task = story.task()
    folder = story.begin(task)
    text = {"type": "text", "timestamp": 1, "sessionID": "s", "part": {"type": "text", "text": f"hello {HOSTILE}"}}
    (folder / "stdout").write_bytes(json.dumps(text).encode() + b"\n\xff\x00 no event\n")
    (folder / "stderr").write_bytes(b"an error \x1b[31m line\n")
    assert "hello evil \\e[2J\\u202e title" in run("tail", "1").out
    assert run("tail", "1", "--stderr").out == "an error \\e[31m line\n"
    assert run("tail", "1", "--raw").out.splitlines()[1] == "\ufffd\\x00 no event"
    story.end(task, Status.NEEDS_REVIEW, "one commit")
    followed = run("tail", "1", "-f")
    assert "hello" in followed.out
    assert followed.err.splitlines()[-1] == "--- needs_review: one commit"
    assert run("tail", "1", "--attempt", "7").code == 2


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("short", ["short"]),
        ("a line of words that is long", ["a line of words that", "is long"]),
        ("> bash: echo a word and another", ["> bash: echo a word", "  and another"]),
        ("  failed: a reason that is long", ["  failed: a reason", "    that is long"]),
        ("averyveryverylongwordthatisapath", ["averyveryverylongwordthatisapath"]),
    ],
)
def test_a_terminal_gets_whole_words(line: str, lines: list[str]) -> None:
    assert tail._fitted(line, 20).split("\n") == lines


def test_tail_names_files_as_the_repository_does(story: Story, run: Run) -> None:
    task = story.task()
    folder = story.begin(task)
    queue.update(story.store, task.id, 1.0, copy_path="/copies/1/work")
    state = {"status": "completed", "input": {"filePath": "/copies/1/work/src/a.py"}}
    call = {"type": "tool_use", "sessionID": "s", "part": {"type": "tool", "tool": "read", "state": state}}
    (folder / "stdout").write_bytes(json.dumps(call).encode() + b"\n")
    assert run("tail", "1").out == "> read: src/a.py\n"


def test_a_pipe_hears_a_followed_worker_at_once(story: Story) -> None:
    """`dispatcher tail -f 1 | grep failed` must not wait until a buffer is full."""
    task = story.task()
    folder = story.begin(task)
    line = {"type": "text", "timestamp": 1, "sessionID": "s", "part": {"type": "text", "text": "hello"}}
    (folder / "stdout").write_bytes(json.dumps(line).encode() + b"\n")
    words = [sys.executable, "-m", "dispatcher.cli", "tail", str(task.id), "-f"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hello\n"
        story.end(task, Status.NEEDS_REVIEW, "one commit")
    assert process.returncode == 0


# --- cancel, pause, resume, retry ---


def test_the_life_of_a_task_in_a_persons_hand(story: Story, run: Run) -> None:
    story.task("One")
    for word, status in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled"), ("retry", "queued")):
        said = run(word, "1")
        assert said.code == 0, said.err
        assert status_of(story, 1) == status
    by = {event.by for event in queue.events(story.store, 1)}
    assert len(by) == 2  # "dispatcher", who added it, and this account


def test_several_at_once_and_one_that_cannot(story: Story, run: Run) -> None:
    for title in ("One", "Two"):
        story.task(title)
    said = run("cancel", "1", "9", "2")
    assert said.code == 2
    assert said.err.splitlines()[0] == "error: there is no task 9"
    assert (status_of(story, 1), status_of(story, 2)) == (Status.CANCELLED, Status.CANCELLED)


@pytest.mark.parametrize(("word", "told"), [("cancel", "cancel"), ("pause", "stop")])
def test_a_running_worker_is_told_even_when_its_run_is_dead(story: Story, run: Run, word: str, told: str) -> None:
    task = story.task()
    folder = story.begin(task)
    said = run(word, "1")
    assert "its worker is being ended" in said.out
    [line] = (folder / "control").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["do"] == told
    assert status_of(story, 1) in (Status.CANCELLED, Status.PAUSED)


@pytest.mark.parametrize(
    ("word", "status", "hint"),
    [
        ("resume", Status.QUEUED, "dispatcher run"),
        ("retry", Status.QUEUED, "dispatcher run"),
        ("retry", Status.PAUSED, "dispatcher resume 1, or dispatcher cancel 1"),
        ("cancel", Status.CANCELLED, "dispatcher retry 1"),
        ("pause", Status.CANCELLED, "dispatcher retry 1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(
    story: Story, run: Run, word: str, status: Status, hint: str
) -> None:
    story.task()
    if status is not Status.QUEUED:
        queue.update(story.store, 1, 1.0, status=status)
    said = run(word, "1")
    assert (said.code, said.err.splitlines()[1]) == (2, f"hint: {hint}")
    assert status_of(story, 1) is status


def test_retry_zeroes_the_counters_and_keeps_the_copy(story: Story, run: Run) -> None:
    task = story.task()
    story.begin(task)
    story.end(task, Status.NEEDS_HUMAN, "all tried")
    copy = story.home / "copy"
    copy.mkdir()
    queue.update(story.store, task.id, 1.0, copy_path=str(copy))
    assert f"goes on in {copy}" in run("retry", "1").out
    found = queue.get(story.store, task.id)
    assert (found.status, found.counters.starts, found.copy_path) == (Status.QUEUED, 0, str(copy))


# --- models, holds ---


def test_hold_and_release(story: Story, run: Run) -> None:
    assert run("hold", "small", "--for", "2h", "--reason", HOSTILE).code == 0
    assert run("hold", "plan").out == "credential plan is held until a person lifts it\n"
    assert run("hold", "demo").out.startswith("provider demo is held")
    found = json.loads(run("holds", "--json").out)
    assert [(row["scope"], row["key"]) for row in found] == [
        ("candidate", "small"),
        ("credential", "plan"),
        ("provider", "demo"),
    ]
    assert "evil \\e[2J" in run("holds").out
    models = {row["name"]: row["state"] for row in json.loads(run("models", "--json").out)["candidates"]}
    assert models["strong"].startswith("held until a person lifts it")
    for name in ("1", "plan", "demo"):
        assert run("release", name).out.endswith("is free again\n")
    assert run("holds").out == "nothing is on hold\n"
    assert run("release", "plan").code == 2


@pytest.mark.parametrize("words", [["nobody"], ["small", "--for", "soon"], ["small", "--for", "0s"]])
def test_a_wrong_hold(home: Path, run: Run, words: list[str]) -> None:
    assert run("hold", *words).code == 2


def test_models_shows_candidates_and_routes(home: Path, run: Run) -> None:
    text = run("models").out
    assert "trivial: small -> large" in text
    assert len(json.loads(run("models", "--json").out)["candidates"]) == 3
    assert len(run("models", "--csv").out.splitlines()) == 4


# --- run ---


def test_a_dry_run_prints_the_plan_and_every_reason(story: Story, run: Run) -> None:
    story.task("One")
    holds.add(story.store, HoldScope.CANDIDATE, "small", LATER, "free limit", "dispatcher", 1.0)
    text = run("run", "--dry-run").out
    assert "task 1: One  [easy: the brief says so]" in text
    assert "would go to large" in text
    assert "not small: on hold (candidate): free limit, until" in text
    [planned] = json.loads(run("run", "--dry-run", "--json").out)
    assert [choice["candidate"] for choice in planned["choices"]] == ["large"]
    assert [skipped["candidate"] for skipped in planned["skipped"]] == ["small"]
    assert story.store.read("SELECT id FROM attempt") == []


def test_a_dry_run_names_what_a_run_would_refuse(story: Story, run: Run, repository: Path) -> None:
    """The repository's own code stops the task; a key in the wrong place only skips the candidate."""
    (repository / "opencode.json").write_text('{"plugin": ["./evil.js"]}', encoding="utf-8")
    for words in (["add", "."], ["commit", "-qm", "a plugin"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    models = (story.home / "models.yaml").read_text(encoding="utf-8")
    program = story.home / "opencode"
    program.write_text("#!/bin/sh\necho 1.18.0\n", encoding="utf-8")
    program.chmod(0o755)
    models = models.replace("harness: scripted, model: demo/", "harness: opencode, model: opencode/")
    (story.home / "models.yaml").write_text(f"{models}harnesses: {{opencode: {{path: {program}}}}}\n")
    story.task("One", repository=str(repository), expect=Expect.COMMIT)
    text = run("run", "--dry-run").out
    assert "small: opencode would run code of this repository by itself: opencode.json" in text
    assert "starts nothing: it would need a person" in text
    assert "would go to" not in text
    [ready] = json.loads(run("ready", "--json").out)
    assert (ready["state"], ready["candidate"]) == ("refused", None)
    assert run("run").code == 1  # as promised

    program.write_text("#!/bin/sh\necho 7.0.0\n", encoding="utf-8")
    story.task("Two", repository=str(repository), expect=Expect.COMMIT)
    [planned] = json.loads(run("run", "--dry-run", "--json").out)
    [refusal] = planned["refusals"]
    assert refusal["needs_person"]
    assert "7.0.0 is of a major version that was not tried" in refusal["reason"]


def test_ready_says_which_cli_is_missing_as_the_run_would(story: Story, run: Run) -> None:
    """It said "waiting" and "a person must help", and not with what."""
    models = (story.home / "models.yaml").read_text(encoding="utf-8")
    models = models.replace("harness: scripted, model: demo/", "harness: opencode, model: opencode/")
    (story.home / "models.yaml").write_text(f"{models}harnesses: {{opencode: {{path: /no/where}}}}\n", encoding="utf-8")
    task = story.task("One")
    [row] = json.loads(run("ready", "--json").out)
    assert row["state"] == "refused"
    assert "small, large: opencode is not installed" in row["why"]
    assert run("run").code == 1
    assert queue.get(story.store, task.id).status_reason == row["why"]


def test_a_dry_run_says_that_wrong_money_skips_a_candidate(
    story: Story, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(ctx: object, settings: object, candidate: Candidate, place: object) -> None:
        if candidate.name == "small":
            raise money.WrongMoney("small would not spend what zen says", hint="log out")

    monkeypatch.setattr("dispatcher.runner.attempt.refuse_wrong_money", refuse)
    story.task("One")
    text = run("run", "--dry-run").out
    assert "not small: small would not spend what zen says (log out)" in text
    assert "would go to large" in text


def test_a_dry_run_names_a_busy_host(story: Story, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_host(monkeypatch)
    story.task("One")
    assert BUSY in run("run", "--dry-run").err


def test_an_idle_run(story: Story, run: Run) -> None:
    assert run("run") == Said(0, "nothing to do\n", "")


def test_a_run_that_only_waits_says_until_when(story: Story, run: Run) -> None:
    task = story.task()
    story.claim(task)
    story.rest(task, Status.WAITING, "held", not_before=LATER)
    said = run("run")
    assert said.code == 75
    assert "every model for it is on hold; next try" in said.err


def test_run_add_queues_what_is_new_and_names_what_is_wrong(
    story: Story, run: Run, brief: Write, tmp_path: Path
) -> None:
    brief(REPORT.format(title="fine"), "briefs/b.md")
    brief("---\nnonsense: 1\n---\n# x\n", "briefs/a.md")
    story.task("also started by that run")
    said = run("run", "--add", str(tmp_path / "briefs"), "--batch", "night", "--dry-run")
    assert said.code == 2
    assert "also started by that run" in said.out
    assert said.err.splitlines()[0].startswith(f"error: {tmp_path}/briefs/a.md:2: ")
    assert [task.title for task in queue.tasks(story.store)] == ["also started by that run", "fine"]


def test_an_untrusted_home_runs_nothing(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    said = run("run")
    assert said.code == 2
    assert said.err.splitlines()[1].endswith(f"dispatcher trust --home {home}")
    assert run("trust").code == 0
    assert run("run").code == 0


@pytest.mark.parametrize("text", ["credentials: [", "candidates: {}\nrouts: {}\n", "a: 1\na: 2\n", "\tx: 1\n"])
def test_a_wrong_configuration_names_the_line(home: Path, run: Run, text: str) -> None:
    (home / "models.yaml").write_text(text, encoding="utf-8")
    for words in (["run"], ["models"], ["doctor"]):
        said = run(*words)
        assert said.code in (1, 2)
        assert f"{home / 'models.yaml'}:" in said.err + said.out


# --- init, doctor ---


def test_init_makes_a_home_that_loads_and_never_replaces_one(home: Path, tmp_path: Path, run: Run) -> None:
    fresh = tmp_path / "fresh"
    assert run("init", str(fresh)).code == 0
    assert run("models", "--home", str(fresh)).code == 0
    assert run("run", "--home", str(fresh)).out == "nothing to do\n"
    before = (fresh / "models.yaml").read_bytes()
    assert run("init", str(fresh)).code == 2
    assert (fresh / "models.yaml").read_bytes() == before


def test_init_says_whose_money_each_level_spends(
    home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = initial.Machine(opencode="/bin/opencode", claude="/bin/claude", claude_key=True)
    monkeypatch.setattr(initial, "look_around", lambda environ: machine)
    lines = run("init", str(tmp_path / "fresh")).out.splitlines()
    assert "trivial, easy: free models, no account" in lines
    assert any(line.startswith("medium, hard: SPENDS MONEY through ANTHROPIC_API_KEY") for line in lines)
    assert run("trust", "--home", str(tmp_path / "fresh")).out.startswith("trusted: ")


def test_doctor_finds_what_would_go_wrong(
    home: Path, repository: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = repository / ".opencode" / "plugin" / "evil.js"
    plugin.parent.mkdir(parents=True)
    plugin.touch()
    (repository / "opencode.json").write_text('{"mcp": {}}', encoding="utf-8")
    (repository / ".mcp.json").touch()
    said = run("doctor", "--repo", str(repository), "--json")
    rows = json.loads(said.out)
    areas = {row["area"] for row in rows}
    assert areas >= {"program", "home", "CLIs", "models", "credentials", "git", "repository", "host", "lock"}
    code = next(row for row in rows if row["area"] == "repository")
    assert code["state"] == "warn"
    assert ".opencode/plugin/evil.js, opencode.json" in code["text"]
    assert any("scripted 1.18" in row["text"] and row["state"] == "ok" for row in rows)
    assert said.code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    untrusted = run("doctor", "--repo", str(repository))
    assert untrusted.code == 1
    assert "not trusted on this machine" in untrusted.out
