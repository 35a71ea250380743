"""What a person sees of calls that wait, and what an answer says and refuses."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.store import approvals
from dispatcher.task import NextStep, PromptKind, Status, Task

from .conftest import MODELS, Run
from .story import Story

HIDDEN = (
    "git push\x1b[2K\rls\n# \u202eeman a ni eugolaid"  # an escape sequence, a carriage return, a change of direction
)


@pytest.fixture
def story(home: Path) -> Iterator[Story]:
    found = Story(home)
    yield found
    found.store.close()


@pytest.fixture
def asked(story: Story) -> Task:
    """A task that is parked with one question."""
    return ask(story, {"command": HIDDEN, "description": "List files"})


def ask(story: Story, given: dict[str, Any], **fields: Any) -> Task:
    task = story.task("Publish \x1b[31mit")
    folder = story.begin(task).parent / "approvals"
    folder.mkdir()
    record = {
        "at": time.time() - 90,
        "tool": "Bash",
        "input": given,
        "folder": "/copies/1",
        "digest": f"d{task.id}",
        "rule": "leaves-the-machine",
        **fields,
    }
    (folder / "1.asked").write_text(json.dumps(record) + "\n")
    return task


def park(story: Story, run: Run, task: Task) -> None:
    run("approvals")  # brings what the supervisor wrote into the database
    step = NextStep(PromptKind.APPROVED, "small", "s1")
    story.end(task, Status.AWAITING_APPROVAL, "a call waits", outcome="awaiting_approval")
    story.rest(task, Status.AWAITING_APPROVAL, "a call waits", next=step)


def test_what_waits_is_listed_with_its_age(story: Story, run: Run, asked: Task) -> None:
    said = run("approvals")
    assert "1m30s" in said.out
    assert "1 waiting, 0 approved today" in said.out
    assert "\x1b" not in said.out
    shown = json.loads(run("approvals", "--json").out)
    (row,) = shown["approvals"]
    assert (row["id"], row["status"], row["rule"], row["input"]["command"]) == (1, "pending", asked_rule(), HIDDEN)
    assert 90 <= row["waited"] < 150
    run("approve", "1")
    assert "0 waiting, 1 approved today" in run("approvals").out


def asked_rule() -> str:
    return "leaves-the-machine"


def test_the_confirmation_shows_everything_and_hides_nothing(story: Story, run: Run, asked: Task) -> None:
    said = run("approve", "1", "--remember", "task")
    assert said.code == 0, said.err
    for words in (
        f"approval 1, task {asked.id}: Publish ",
        "asked by   small (scripted, demo/free-small), attempt 1",
        "rule leaves-the-machine",
        "tool       Bash",
        "folder     /copies/1",
        "description: List files",
        f"remember   exactly this call, for task {asked.id}, until it is taken back",
        f"approval 1: approved, and the same call of task {asked.id}",
    ):
        assert words in said.out
    assert "git push" in said.out
    assert "ls" in said.out
    assert not {"\x1b", "\r", "\u202e"} & set(said.out), "what a terminal would obey"


def test_an_answer_is_logged_with_who_from_where_and_how_long(story: Story, run: Run, asked: Task) -> None:
    run("approvals")
    park(story, run, asked)
    said = run("deny", "1", "--reason", "not before Monday")
    assert said.code == 0, said.err
    assert f"task {asked.id} goes on with the next: dispatcher run" in said.out
    row = approvals.get(story.store, 1)
    assert (row.status, row.answered_by, row.answer_reason) == ("denied", getpass.getuser(), "not before Monday")
    assert row.answered_from
    assert "not before Monday" in run("show", str(asked.id)).out
    (line,) = (story.home / f"logs/{asked.id}/approvals/1.answers").read_text().splitlines()
    assert json.loads(line)["do"] == "deny"


def test_only_who_is_named_may_answer(home: Path, story: Story, run: Run, asked: Task) -> None:
    (home / "models.yaml").write_text(MODELS + "approvals: {approvers: {nobody-here: all, other: [deploy]}}\n")
    for words in (("approve", "1"), ("deny", "1", "--reason", "no")):
        said = run(*words)
        assert said.code == 2
        assert f"{getpass.getuser()} may not answer the rule 'leaves-the-machine'" in said.err
        assert "hint: `approvers` in models.yaml names: nobody-here" in said.err
    assert approvals.get(story.store, 1).status == "pending"
    (home / "models.yaml").write_text(MODELS + f"approvals: {{approvers: {{{getpass.getuser()}: [{asked_rule()}]}}}}\n")
    assert run("approve", "1").code == 0


def test_no_worker_answers(story: Story, run: Run, asked: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_ATTEMPT", "1-x")
    for words in (("approve", "1"), ("deny", "1", "--reason", "no"), ("approvals", "revoke", "1")):
        said = run(*words)
        assert said.code != 0
        assert "a worker cannot answer for a person" in said.err
    assert not (story.home / f"logs/{asked.id}/approvals/1.answers").exists()


def test_a_grant_is_listed_and_taken_back(story: Story, run: Run, asked: Task) -> None:
    run("approve", "1", "--remember", "task")
    (grant,) = json.loads(run("approvals", "grants", "--json").out)
    assert (grant["scope"], grant["scope_key"], grant["approval_id"]) == ("task", str(asked.id), 1)
    assert run("approvals", "revoke", "1").code == 0
    assert json.loads(run("approvals", "grants", "--json").out) == []
    assert run("approvals", "revoke", "1").code == 2


def test_what_is_never_remembered(story: Story, run: Run) -> None:
    ask(story, {"command": "git push"}, remember=False)
    said = run("approve", "1", "--remember", "task")
    assert said.code == 2
    assert "is asked every time (remember: never)" in said.err
    assert said.err.splitlines()[1] == "hint: leave out --remember"
    assert approvals.get(story.store, 1).status == "pending"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("git push",), ("ask", "leaves-the-machine", "built in")),
        (("ls",), ("allow", "harmless", "built in")),
        (("kubectl apply -f x",), ("deny", "deploy", "models.yaml:")),
        (('{"file_path": ".git/config"}', "--tool", "Write"), ("ask", "changes-settings", "built in")),
    ],
)
def test_the_rule_that_decides(home: Path, run: Run, words: tuple[str, ...], expected: tuple[str, str, str]) -> None:
    rules = "approvals: {rules: [{command: kubectl apply, do: deny, name: deploy}]}\n"
    (home / "models.yaml").write_text(MODELS + rules)
    found = json.loads(run("approvals", "test", *words, "--json").out)
    assert (found["do"], found["rule"]) == expected[:2]
    assert found["source"].startswith(expected[2])
