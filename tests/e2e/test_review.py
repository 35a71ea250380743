"""Judgement of finished work: by a person, into a branch, by a second model; prompts that no brief can subvert."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.test_checks import COMMIT, DONE, EDIT, work
from tests.e2e.world import World, marked, real_world, script, scripted_world


@pytest.fixture(params=["opencode", "claude"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        yield real_world(tmp_path, cli, server)
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def finished(world: World, **front: Any) -> int:
    """A task that changed value.txt to 2 and needs review."""
    steps = [{"shell": "echo 2 > value.txt"}, {"commit": {"message": "set it", "files": ["value.txt"]}}]
    words = {"text": "The value is 2.\x1b[31m red"}
    task = world.do(world.brief("work", script({"steps": [*steps, words]}), title="Set the value", **front))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    return task


def document(world: World, task: int) -> Any:
    return json.loads(world.run("review", str(task), "--json", check=True).stdout)


def reviews(world: World, task: int) -> list[tuple[str, str, str]]:
    rows = world.rows("select decision, kind, text from review where task_id = ? order by id", task)
    return [(row["decision"], row["kind"], row["text"]) for row in rows]


def untouched(world: World) -> tuple[str, str, str, str]:
    """What must be the same after a refusal: branch, files, index and state of the person's checkout."""
    return (
        world.git("rev-parse", "HEAD", "main"),
        world.git("status", "--porcelain=v2"),
        (world.repo / "value.txt").read_text(),
        world.git("ls-files", "--stage"),
    )


# --- looking ------------------------------------------------------------------------------------------------------


def test_what_review_shows(world: World) -> None:
    task = finished(world, verify=["./check.sh"])
    said = world.run("review", str(task), check=True).stdout
    assert "1 file changed, +1 -1" in said
    assert "value.txt  +1 -1" in said
    assert "passed   ./check.sh" in said
    assert "The value is 2." in said
    assert "\x1b" not in said, "what a worker wrote is made visible"
    assert "1 attempt, " in said
    assert "scripted/s1" in said
    found = document(world, task)
    assert found["diff"] == {"files": [["value.txt", 1, 1]], "insertions": 1, "deletions": 1}
    assert [check["passed"] for check in found["checks"]] == [True]
    assert found["cost"]["attempts"] == 1
    assert found["reviews"] == []
    patch = world.run("review", str(task), "--diff", check=True).stdout
    assert "-1\n+2\n" in patch


NONSENSE = (
    ["--accept", "--reject", "--note", "x"],
    ["--reject"],
    ["--into", "main"],
    ["--accept", "--how", "merge"],
    ["--follow-up"],
    ["--with", "first", "--accept"],
    ["--with", "nobody"],
    ["--accept", "--into", "main", "--how", "sideways"],
    ["--accept", "--into", "no-such-branch"],
)


def test_nonsense_is_refused_and_moves_nothing(world: World) -> None:
    task = finished(world)
    for words in NONSENSE:
        refused = world.run("review", str(task), *words)
        assert refused.returncode == 2, (words, refused.stdout)
        assert refused.stderr.startswith("error: ")
    assert world.task(task)["status"] == "needs_review"
    assert reviews(world, task) == []


def test_a_task_that_is_not_finished_cannot_be_decided(world: World) -> None:
    task = world.add(world.brief("later", "Do it."))
    for words in (["--accept"], ["--reject", "--note", "no"]):
        assert world.run("review", str(task), *words).returncode == 2
    assert world.task(task)["status"] == "queued"


# --- deciding -----------------------------------------------------------------------------------------------------


def test_rejected_and_followed_up_from_the_rejected_commit(world: World) -> None:
    steps = [{"shell": "echo 2 > value.txt"}, {"commit": {"message": "set it", "files": ["value.txt"]}}]
    better = [{"shell": "echo 3 > value.txt"}, {"commit": {"message": "set it to 3", "files": ["value.txt"]}}]
    body = script({"prompt": "It must be 3", "steps": better}, {"steps": steps})
    task = world.do(world.brief("work", body, title="Set the value", touch=["*.txt"], limits={"stall": "5m"}))
    world.run("review", str(task), "--reject", "--note", "It must be 3: @/etc/passwd", "--follow-up", check=True)
    assert world.task(task)["status"] == "rejected"
    assert reviews(world, task) == [("rejected", "person", "It must be 3: @/etc/passwd")]

    second = task + 1
    row = world.task(second)
    assert row["title"] == "Follow-up of task 1: Set the value"
    assert row["status"] == "queued"
    assert world.run("run").returncode == 0
    assert world.task(second)["status"] == "needs_review", world.story(second)
    prompt = (Path(world.attempts(second)[0]["folder"]) / "prompt.md").read_text()
    assert "It must be 3: \\@/etc/passwd" in prompt
    assert "Only files that match these patterns may change: `*.txt`" in prompt
    base = json.loads(world.task(second)["task_base"])["base"]
    assert base == world.task(task)["result_commit"]
    assert world.branch_log(second) == ["set it to 3", "set it"]
    kinds = [row["kind"] for row in world.rows("select kind from event where task_id = ? order by id", task)]
    assert kinds[-2:] == ["review", "note"]


def test_findings_of_a_person_may_follow_acceptance(world: World) -> None:
    task = finished(world)
    world.run("review", str(task), "--accept", check=True)
    world.run("review", str(task), "--note", "a test is missing", check=True)
    assert world.task(task)["status"] == "accepted"
    assert reviews(world, task) == [("accepted", "person", ""), ("advice", "person", "a test is missing")]
    assert world.run("review", str(task), "--accept").returncode == 2
    assert world.run("review", str(task), "--reject", "--note", "late").returncode == 2


# --- accepting into a branch --------------------------------------------------------------------------------------


def test_into_main_that_did_not_move(world: World) -> None:
    task = finished(world)
    said = world.run("review", str(task), "--accept", "--into", "main", check=True).stdout
    assert "main is now" in said
    assert world.task(task)["status"] == "accepted"
    assert world.git("rev-parse", "main") == world.task(task)["result_commit"]
    assert (world.repo / "value.txt").read_text() == "2\n", "the clean checkout was moved along"
    assert world.git("status", "--porcelain") == ""
    [row] = world.rows("select data from review")
    assert json.loads(row["data"]) == {"into": "main", "how": "ff", "sha": world.git("rev-parse", "main")}


@pytest.mark.parametrize("how", ["merge", "squash"])
def test_into_main_that_moved(world: World, how: str) -> None:
    task = finished(world)
    (world.repo / "other.txt").write_text("by a person\n")
    world.git("add", "other.txt")
    world.git("commit", "-qm", "by a person")
    before = untouched(world)
    refused = world.run("review", str(task), "--accept", "--into", "main")
    assert refused.returncode == 2
    assert "main has moved" in refused.stderr
    assert "hint:" in refused.stderr
    assert untouched(world) == before
    assert world.task(task)["status"] == "needs_review"

    world.run("review", str(task), "--accept", "--into", "main", "--how", how, check=True)
    assert world.task(task)["status"] == "accepted"
    assert (world.repo / "value.txt").read_text() == "2\n"
    assert (world.repo / "other.txt").read_text() == "by a person\n"
    assert world.git("status", "--porcelain") == ""
    parents = world.git("log", "-1", "--format=%P", "main").split()
    assert len(parents) == (2 if how == "merge" else 1)
    assert f"Dispatcher-Task: {task}" in world.git("log", "-1", "--format=%B", "main")
    assert world.git("log", "-1", "--format=%an", "main") == "A Person"


def test_a_conflict_is_named_and_nothing_is_half_done(world: World) -> None:
    task = finished(world)
    (world.repo / "value.txt").write_text("9\n")
    world.git("commit", "-qam", "by a person")
    before = untouched(world)
    for how in ("merge", "squash"):
        refused = world.run("review", str(task), "--accept", "--into", "main", "--how", how)
        assert refused.returncode == 2
        assert "conflicts with main: value.txt" in refused.stderr
        assert untouched(world) == before
    assert world.task(task)["status"] == "needs_review"
    assert reviews(world, task) == []


@pytest.mark.parametrize("dirt", ["changed", "staged", "untracked-in-the-way"])
def test_a_dirty_checkout_is_never_touched(world: World, dirt: str) -> None:
    steps = work("new.txt")
    task = world.do(world.brief("new", script({"steps": steps})))
    if dirt == "untracked-in-the-way":
        (world.repo / "new.txt").write_text("mine\n")
    else:
        (world.repo / "check.sh").write_text("mine\n")
        if dirt == "staged":
            world.git("add", "check.sh")
    before = untouched(world)
    refused = world.run("review", str(task), "--accept", "--into", "main")
    assert refused.returncode == 2, refused.stdout
    assert untouched(world) == before
    if dirt == "untracked-in-the-way":
        assert (world.repo / "new.txt").read_text() == "mine\n"
    assert world.task(task)["status"] == "needs_review"


def test_another_branch_is_checked_out(world: World) -> None:
    """main moves; the person's checkout of another branch, dirty as it is, stays."""
    task = finished(world)
    world.git("switch", "-qc", "mine")
    (world.repo / "check.sh").write_text("mine\n")
    world.run("review", str(task), "--accept", "--into", "main", check=True)
    assert world.git("show", "main:value.txt") == "2"
    assert (world.repo / "value.txt").read_text() == "1\n"
    assert (world.repo / "check.sh").read_text() == "mine\n"


def test_accepted_by_its_checks_and_later_into_main(world: World) -> None:
    task = world.do(world.brief("auto", script({"steps": work("a.txt")}), verify=["true"], auto_accept="checks"))
    assert world.task(task)["status"] == "accepted", world.story(task)
    world.run("review", str(task), "--accept", "--into", "main", check=True)
    assert (world.repo / "a.txt").exists()
    assert [(decision, kind) for decision, kind, _ in reviews(world, task)] == [
        ("accepted", "checks"),
        ("accepted", "person"),
    ]


# --- a pull request -----------------------------------------------------------------------------------------------


def with_remote(world: World) -> Path:
    remote = world.root / "remote.git"
    world.git("init", "-q", "--bare", str(remote))
    world.git("remote", "add", "origin", str(remote))
    hook = world.repo / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    return remote


def gh(world: World, text: str) -> dict[str, str]:
    """An environment with this `gh` on PATH; it keeps what it was called with."""
    program = world.root / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {world.root}/gh.words\ncat > {world.root}/gh.body\n{text}\n')
    program.chmod(0o755)
    environment = world.environment
    return {**environment, "PATH": f"{program.parent}:{environment['PATH']}"}


def test_a_pull_request(world: World) -> None:
    remote = with_remote(world)
    env = gh(world, "echo https://github.com/x/y/pull/41")
    brief = world.brief("pr", script({"steps": work("a.txt", text="Added a.")}), deliver="pr", title="Add a")
    task = world.add(brief)
    ran = world.run("run", env=env)
    assert ran.returncode == 0, ran.stderr
    row = world.task(task)
    assert row["status"] == "needs_review", world.story(task)
    assert "pull request https://github.com/x/y/pull/41" in world.run("show", str(task)).stdout
    words = (world.root / "gh.words").read_text().splitlines()
    assert words[:2] == ["pr", "create"]
    assert dict(zip(words[2::2], words[3::2], strict=False)) == {
        "--head": row["branch"],
        "--title": "Add a",
        "--body-file": "-",
        "--base": "main",
    }
    assert "Added a." in (world.root / "gh.body").read_text()
    assert world.git("rev-parse", row["branch"], cwd=remote) == row["result_commit"]


@pytest.mark.parametrize("case", ["no gh", "gh fails", "no remote", "there is one"])
def test_no_pull_request_changes_nothing(world: World, case: str) -> None:
    if case != "no remote":
        with_remote(world)
    text = "echo 'a pull request already exists: https://github.com/x/y/pull/7' >&2; exit 1"
    env = world.environment if case == "no gh" else gh(world, text if case == "there is one" else "echo no >&2; exit 4")
    task = world.add(world.brief("pr", script({"steps": work("a.txt")}), deliver="pr"))
    assert world.run("run", env=env).returncode == 0
    assert world.task(task)["status"] == "needs_review", world.story(task)
    said = world.run("show", str(task)).stdout
    wanted = {
        "no gh": "no pull request: gh is not installed",
        "gh fails": "no pull request: gh pr create",
        "no remote": "no pull request: the repository has no remote",
        "there is one": "pull request https://github.com/x/y/pull/7",
    }
    assert wanted[case] in said


# --- a second model -----------------------------------------------------------------------------------------------


@pytest.mark.real_cli
def test_a_second_model_reads_and_its_findings_are_stored(real: World) -> None:
    real.script(0, [EDIT, COMMIT, DONE])
    task = real.do(real.brief("work", "Make value.txt hold 2, a-unique-brief.", title="Set the value"))
    findings = "- [high] value.txt:1: it should be 3\nAdvice: reject"
    real.script(1, [{"read": {"path": "value.txt"}}, {"text": findings}])
    asked = real.run("review", str(task), "--with", "second")
    assert asked.returncode == 0, (asked.stdout, asked.stderr)

    assert "it should be 3" in asked.stdout
    assert "findings by second" in asked.stdout
    assert real.task(task)["status"] == "needs_review", "advice decides nothing"
    assert reviews(real, task) == [("advice", "model", findings)]
    assert real.task(task + 1)["status"] == "accepted"
    seen = real.prompts(1)
    offered = {tool.lower() for request in seen for tool in request.tools}
    assert offered
    assert not offered & {"bash", "write", "edit", "notebookedit", "patch", "multiedit", "task"}
    assert "a-unique-brief" in seen[0].prompt
    assert "+2" in seen[0].prompt
    assert "2" in seen[-1].text.rpartition("value.txt")[2], "it sees the file as the worker left it"
    assert len(real.attempts(task + 1)) == 1, "it costs an attempt like any other"

    real.run("review", str(task), "--accept", check=True)
    real.script(2, [{"text": "No findings."}])
    assert real.run("review", str(task), "--with", "third").returncode == 0
    assert [row[:2] for row in reviews(real, task)] == [
        ("advice", "model"),
        ("accepted", "person"),
        ("advice", "model"),
    ]


def test_a_reviewer_on_hold_is_asked_by_a_later_run(world: World) -> None:
    task = finished(world)
    world.run("hold", "second", check=True)
    asked = world.run("review", str(task), "--with", "second")
    assert asked.returncode != 0
    assert "no findings yet" in asked.stderr
    assert reviews(world, task) == []
    world.run("release", "second", check=True)
    world.run("retry", str(task + 1), check=True)
    assert world.run("run").returncode == 0
    assert [row[:2] for row in reviews(world, task)] == [("advice", "model")]


# --- prompts ------------------------------------------------------------------------------------------------------


@pytest.mark.real_cli
@pytest.mark.parametrize("start", ["/clear", "!touch bang"])
def test_no_first_word_of_a_brief_is_a_command_of_the_cli(real: World, start: str) -> None:
    """claude alone runs `/clear` and calls no model; here it is text, and the model gets it."""
    real.script(0, [EDIT, COMMIT, DONE])
    path = real.home / "briefs" / "slash.md"
    path.write_text(f"---\nrepo: {real.repo}\ntitle: Slash\n---\n{start}\n\nMake value.txt hold 2, a-unique-brief.\n")
    task = real.do(path)
    assert real.task(task)["status"] == "needs_review", real.story(task)
    seen = real.prompts(0)
    assert len(seen) == 3
    assert seen[0].prompt.lstrip().startswith("Headless run. Prompt: first.")
    assert f"\n{start}\n" in seen[0].prompt
    assert "a-unique-brief" in seen[0].prompt
    assert real.branch_log(task) == ["set the value to 2"]


@pytest.mark.real_cli
def test_no_at_sign_of_a_brief_attaches_a_file(real: World) -> None:
    """claude alone attaches any readable file of an `@path` word, without asking; here the words stay words."""
    secret = real.root / "secret.txt"
    secret.write_text("secret-words-8841\n")
    inside = real.repo / "value.txt"
    words = [
        f"@{secret}",
        f"see @{secret} now",
        f"({secret})@{secret}",
        f'"@{secret}"',
        "@value.txt",
        f"@~/x @{inside}",
    ]
    body = "\n".join([*words, "@/etc/hostname", "Make value.txt hold 2."])
    real.script(0, [{"when": "Prompt: finish", "steps": [COMMIT, DONE]}, EDIT, {"text": f"Look at @{secret}"}])
    path = real.home / "briefs" / "at.md"
    path.write_text(f"---\nrepo: {real.repo}\ntitle: 'At @{secret}'\n---\n{body}\n")
    task = real.do(path)
    assert real.task(task)["status"] == "needs_review", real.story(task)
    assert [a["prompt"] for a in real.attempts(task)] == ["first", "finish"]
    for request in real.prompts(0):
        assert "secret-words-8841" not in request.text
    assert str(secret) in real.prompts(0)[0].prompt, "the words themselves are there"
