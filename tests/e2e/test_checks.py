"""Proof of work: hooks, verify, hidden checks, the gate on paths; with the real CLIs where they matter."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.world import World, marked, real_world, script, scripted_world, started

EDIT = {"text": "I will set the value.", "shell": "echo 2 > value.txt"}
COMMIT = {"shell": "git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2, committed."}


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


def work(*files: str, text: str = "Done.") -> list[dict[str, Any]]:
    """Steps that write these files, commit them, and say so."""
    wrote = [{"write": {"path": name, "content": f"{name}\n"}} for name in files]
    return [*wrote, {"commit": {"message": f"add {', '.join(files)}", "files": list(files)}}, {"text": text}]


def checks(world: World, task: int) -> list[dict[str, Any]]:
    return world.rows(
        "select a.number, c.* from check_result c join attempt a on a.id = c.attempt_id where a.task_id = ? "
        "order by a.number, c.position",
        task,
    )


def left_over(world: World) -> list[str]:
    """Checkouts of checks that were not removed."""
    return [str(path) for path in (world.user_home / ".local/state").rglob("check-*")]


# --- with the real CLIs -------------------------------------------------------------------------------------------


@pytest.mark.real_cli
def test_a_hook_that_refuses_twice(real: World) -> None:
    """The work is kept on a ref, and a person is told the hook's name and the ref."""
    hook = real.repo / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho no-semicolon-in-value >&2\nexit 1\n")
    hook.chmod(0o755)
    finish = {"when": "Prompt: finish", "steps": [COMMIT, {"text": "The hook refuses."}]}
    real.script(0, [finish, EDIT, COMMIT, {"text": "The hook refuses."}])
    brief = real.brief("hook", "Make value.txt hold 2.", limits={"finish_attempts": 1})
    task = real.do(brief, expect_exit=1)

    row, attempts = real.task(task), real.attempts(task)
    assert row["status"] == "needs_human", real.story(task)
    assert [a["prompt"] for a in attempts] == ["first", "finish"]
    assert "pre-commit (exit code 1) refused the commit; it said: " in row["status_reason"]
    assert "no-semicolon-in-value" in row["status_reason"]
    ref = attempts[-1]["snapshot_ref"]
    assert ref in row["status_reason"]
    assert real.git("show", f"{ref}:value.txt") == "2"
    assert real.git("status", "--porcelain") == ""
    finishing = next(request for request in real.prompts(0) if "Prompt: finish" in request.prompt)
    assert "pre-commit" in finishing.prompt
    assert "no-semicolon-in-value" in finishing.prompt


@pytest.mark.real_cli
def test_a_failed_check_is_in_the_next_prompt_and_a_hidden_one_is_not(real: World) -> None:
    hidden = real.root / "examination-room"
    hidden.mkdir()
    (hidden / "check-secret.sh").write_text(
        "#!/bin/sh\ncat answer.txt\ngrep -qx 2 value.txt && exit 0\necho hidden-words-7319; exit 3\n"
    )
    (hidden / "check-secret.sh").chmod(0o755)
    (hidden / "answer.txt").write_text("overlaid-words-5521\n")
    right = [{"shell": "echo 2 > value.txt; git rm -q bad.txt; git add value.txt; git commit -qm right"}, DONE]
    wrong = [{"shell": "echo 3 > value.txt; echo x > bad.txt; git add value.txt bad.txt; git commit -qm wrong"}, DONE]
    real.script(0, [{"when": "Prompt: continue", "steps": right}, *wrong])
    verify = "test ! -e bad.txt || { echo visible-words-4410; exit 1; }"
    brief = real.brief("both", "Make value.txt hold 2.", verify=[verify], hidden_checks=str(hidden))
    task = real.do(brief)

    row, attempts = real.task(task), real.attempts(task)
    assert row["status"] == "needs_review", real.story(task)
    assert [a["prompt"] for a in attempts] == ["first", "continue"]
    found = checks(real, task)
    assert [(c["number"], c["hidden"], c["passed"], c["exit_code"]) for c in found] == [
        (1, 0, 0, 1),
        (1, 1, 0, 3),
        (2, 0, 1, 0),
        (2, 1, 1, 0),
    ]
    assert "hidden-words-7319" in found[1]["output"]
    assert "overlaid-words-5521" in found[1]["output"]
    again = next(request for request in real.prompts(0) if "Prompt: continue" in request.prompt)
    assert "visible-words-4410" in again.prompt
    assert "A hidden check failed." in again.prompt
    for request in real.prompts(0):
        for word in ("hidden-words", "overlaid-words", "examination-room", "check-secret"):
            assert word not in request.text
    for path in (real.home / "logs" / str(task)).rglob("*"):
        if path.is_file() and path.suffix != ".db":
            assert b"hidden-words" not in path.read_bytes(), path
            assert b"examination-room" not in path.read_bytes(), path
    assert left_over(real) == []


@pytest.mark.real_cli
def test_an_edit_outside_of_touch_is_refused_with_the_paths(real: World) -> None:
    edit = {"shell": "mkdir -p tests/unit; echo t > tests/unit/t.txt; echo 2 > value.txt; git add tests value.txt"}
    real.script(0, [edit, {"shell": "git commit -qm 'tests and more'"}, DONE])
    task = real.do(real.brief("touch", "Write a test.", touch=["tests/**"], verify=["true"]), expect_exit=1)

    row = real.task(task)
    assert row["status"] == "needs_human", real.story(task)
    assert "value.txt" in row["status_reason"]
    assert "tests/unit/t.txt" not in row["status_reason"]
    assert "outside_touch" in json.loads(row["flags"])
    assert checks(real, task) == [], "nothing is run on work that may not be"
    assert "tests/**" in real.prompts(0)[0].prompt


@pytest.mark.real_cli
def test_a_persons_commit_on_main_is_not_the_workers(real: World) -> None:
    """Somebody commits on main in the middle of the run; the worker does nothing."""
    flag = real.root / "now"
    real.script(0, [{"shell": f"echo looking; while [ ! -e {flag} ]; do sleep 0.05; done"}, {"text": "Nothing to do."}])
    real.script(1, [{"text": "Nothing to do."}])
    task = real.add(real.brief("idle", "Do what is needed."))
    with started(real) as running:
        assert real.server is not None
        real.server.wait_for(1, timeout=60)
        (real.repo / "person.txt").write_text("p\n")
        real.git("add", "person.txt")
        real.git("commit", "-qm", "by a person")
        flag.touch()
        assert running.wait(timeout=120) == 1
    row = real.task(task)
    assert row["status"] == "needs_human", real.story(task)
    assert "changed nothing" in row["status_reason"]
    assert row["branch"] is None
    for attempt in real.attempts(task):
        evidence = json.loads(attempt["evidence"])
        assert (evidence["commits"], evidence["elsewhere"], evidence["files"]) == ([], [], [])
    assert real.git("log", "-1", "--format=%s", "main") == "by a person"


# --- with the built-in worker -------------------------------------------------------------------------------------


def test_what_was_red_before_is_not_the_workers_fault(world: World) -> None:
    brief = world.brief("red", script({"steps": work("a.txt")}), verify=["./check.sh", "test -e a.txt"])
    task = world.do(brief)
    row = world.task(task)
    assert row["status"] == "needs_review", world.story(task)
    assert "red_before" in json.loads(row["flags"])
    assert [(c["passed"], c["red_before"]) for c in checks(world, task)] == [(0, 1), (1, 0)]


def test_a_hidden_check_is_not_excused_by_the_base(world: World) -> None:
    """It asks for what was not there before: red on the base is how it should be."""
    (world.home / "ask.sh").write_text("#!/bin/sh\ntest -e wanted.txt\n")
    (world.home / "ask.sh").chmod(0o755)
    body = script({"prompt": "Prompt: continue", "steps": work("wanted.txt")}, {"steps": work("other.txt")})
    task = world.do(world.brief("hidden", body, hidden_checks="../ask.sh"))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(c["number"], c["passed"], c["red_before"], c["command"]) for c in checks(world, task)] == [
        (1, 0, 0, "ask.sh"),
        (2, 1, 0, "ask.sh"),
    ]


def test_no_prompt_of_any_kind_tells_of_hidden_checks_or_blames_what_was_red(world: World) -> None:
    """Continue, finish, the brief of a second model's review, and the follow-up of a rejection."""
    folder = world.root / "examination-room"
    folder.mkdir()
    (folder / "check-secret").write_text("#!/bin/sh\necho hidden-words-7319\ntest -e wanted.txt\n")
    (folder / "check-secret").chmod(0o755)
    (folder / "answer.txt").write_text("overlaid-words-5521\n")
    body = script(
        {"prompt": "You review the work", "steps": [{"text": "No findings.\nAdvice: accept"}]},
        {"prompt": "Why this was rejected", "steps": work("more.txt")},
        {
            "prompt": "Prompt: finish",
            "steps": [{"commit": {"message": "add", "files": ["wanted.txt"]}}, {"text": "Yes."}],
        },
        {"prompt": "Prompt: continue", "steps": [{"write": {"path": "wanted.txt", "content": "x"}}, {"text": "Done."}]},
        {"steps": work("other.txt")},
    )
    verify = ["test -e other.txt", "echo red-words-1188; ./check.sh"]
    task = world.do(world.brief("secret", body, verify=verify, hidden_checks=str(folder)))
    assert [a["prompt"] for a in world.attempts(task)] == ["first", "continue", "finish"], world.story(task)
    assert world.task(task)["status"] == "needs_review"
    assert "red_before" in json.loads(world.task(task)["flags"])
    assert any("hidden-words-7319" in row["output"] for row in checks(world, task)), "it did run"
    world.run("review", str(task), "--with", "second", check=True)
    world.run("review", str(task), "--reject", "--note", "One file more.", "--follow-up", check=True)
    world.run("run", check=True)
    assert [row["status"] for row in world.rows("select status from task order by id")] == [
        "rejected",
        "accepted",
        "needs_review",
    ]

    prompts = sorted((world.home / "logs").rglob("prompt.md"))
    given = {path: path.read_text() for path in prompts if path.parents[1].parent == world.home / "logs"}
    assert len(given) == 5
    for path, prompt in given.items():
        for word in ("hidden-words", "overlaid-words", "examination-room", "check-secret"):
            assert word not in prompt, (path, word)
        assert "(exit code 1):\nred-words" not in prompt, path
    again = given[world.home / "logs" / str(task) / "2" / "prompt.md"]
    assert "A hidden check failed." in again
    assert "The check `" not in again, "what was red before is nobody's to repair"


def test_a_folder_without_programs_is_laid_over_and_verify_runs_again(world: World) -> None:
    folder = world.root / "hidden"
    folder.mkdir()
    (folder / "expected.txt").write_text("wanted.txt\n")
    verify = "test ! -e expected.txt || test -e $(cat expected.txt)"
    brief = world.brief("over", script({"steps": work("wanted.txt")}), verify=[verify], hidden_checks=str(folder))
    task = world.do(brief)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(c["hidden"], c["passed"]) for c in checks(world, task)] == [(0, 1), (1, 1)]


def test_a_link_of_the_worker_is_not_followed_by_the_overlay(world: World) -> None:
    """The worker commits `tests` as a link to a folder of the person; the hidden tests must not land there."""
    outside, folder = world.root / "precious", world.root / "hidden"
    outside.mkdir()
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "t.txt").write_text("hidden\n")
    (folder / "check").write_text("#!/bin/sh\ntest -f tests/t.txt && test ! -L tests\n")
    (folder / "check").chmod(0o755)
    steps = [
        {"shell": f"ln -s {outside} tests"},
        {"commit": {"message": "link", "files": ["tests"]}},
        {"text": "Done."},
    ]
    task = world.do(world.brief("link", script({"steps": steps}), hidden_checks=str(folder)))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("what", ["inside", "missing"])
def test_hidden_checks_that_cannot_be_are_for_a_person(world: World, what: str) -> None:
    """In the repository the worker would see them; a command that is not there says nothing about the work."""
    said = {"inside": str(world.repo / "check.sh"), "missing": "/no/such/program --flag"}[what]
    task = world.do(world.brief("bad", script({"steps": work("a.txt")}), hidden_checks=said), expect_exit=1)
    row = world.task(task)
    assert row["status"] == "needs_human", world.story(task)
    assert {"inside": "where the worker sees them", "missing": "cannot be run (exit 127)"}[what] in row["status_reason"]
    assert world.branch_log(task) == ["add a.txt"], "the work is delivered all the same"


def test_a_clean_checkout_with_setup_and_copied_files(world: World) -> None:
    """What only works because of a file that was not committed does not pass; `setup` and `copy_files` are there."""
    (world.repo / ".gitignore").write_text("*.local\nbuilt\n")
    world.git("add", ".gitignore")
    world.git("commit", "-qm", "ignore")
    (world.repo / "settings.local").write_text("x\n")
    world.extra_config = f"repositories:\n  {world.repo}: {{copy_files: ['*.local'], setup: ['echo ok > built']}}\n"
    world.write_config()
    good = ["test -e settings.local", "grep -qx ok built", "test ! -e forgotten.local"]
    steps = [{"write": {"path": "forgotten.local", "content": "x"}}, *work("a.txt")]
    task = world.do(world.brief("clean", script({"steps": steps}), verify=good))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [c["passed"] for c in checks(world, task)] == [1, 1, 1]
    assert left_over(world) == []


def test_a_setup_that_fails_is_told_by_its_first_and_last_line(world: World) -> None:
    """In words, not as a piece of its output; the file that has all of it is named."""
    command = "echo begun; seq 1000; printf 'no\\tsuch package\\n\\n' >&2; exit 3"
    (world.root / "setup.sh").write_text(f"{command}\n")
    world.extra_config = f"repositories:\n  {world.repo}: {{setup: ['sh {world.root}/setup.sh']}}\n"
    world.write_config()
    task = world.do(world.brief("setup", script({"steps": work("a.txt")})), expect_exit=1)
    reason = world.task(task)["status_reason"]
    assert f'setup failed: `sh {world.root}/setup.sh` (exit 3); it said "begun" ... ' in reason
    assert "such package" in reason
    assert "\n" not in reason
    assert "500" not in reason
    named = world.home / "logs" / str(task) / "setup/1/stdout"
    assert f"whole output: {named}" in reason
    assert named.read_text().count("\n") == 1001


def test_a_check_that_never_ends_is_ended_with_all_its_processes(world: World) -> None:
    world.limits = {"verify_cap": "2s"}
    world.write_config()
    nap = f"sleep 97{len(str(world.root))}"
    body = script({"prompt": "Prompt: continue", "steps": [{"text": "I cannot."}]}, {"steps": work("a.txt")})
    verify = f"test ! -e a.txt || {{ (setsid {nap} &) ; echo begun; {nap}; }}"
    task = world.do(world.brief("endless", body, verify=[verify], limits={"finish_attempts": 0}), expect_exit=1)
    found = checks(world, task)
    assert world.task(task)["status"] == "needs_human", world.story(task)
    assert found[0]["passed"] == 0
    assert "begun" in found[0]["output"]
    assert "[ended after 2 s]" in found[0]["output"]
    assert marked(nap.replace(" ", "\0")) == []


def test_a_run_that_is_stopped_in_the_middle_of_checks_runs_them_again_later(world: World) -> None:
    """TERM while a check runs: it is ended, nothing is judged by it, and the next run goes on at the checks."""
    ready, go = world.root / "ready", world.root / "go"
    verify = f"touch {ready}; while [ ! -e {go} ]; do sleep 0.05; done"
    task = world.add(world.brief("stopped", script({"steps": work("a.txt")}), verify=[verify]))
    with started(world) as running:
        wait_until(ready.exists)
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=60)
    assert marked(str(world.root)) == []
    assert checks(world, task) == []
    go.touch()
    ran = world.run("run")
    assert ran.returncode == 0, ran.stderr
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["prompt"] for a in world.attempts(task)] == ["first"], "the worker was not asked again"
    assert [c["passed"] for c in checks(world, task)] == [1]


def test_a_dispatcher_killed_in_the_middle_of_checks(world: World) -> None:
    """KILL: the check lives on under its supervisor; the next run ends it, removes its checkout, and checks again."""
    ready, go = world.root / "ready", world.root / "go"
    verify = f"touch {ready}; while [ ! -e {go} ]; do sleep 0.05; done"
    task = world.add(world.brief("killed", script({"steps": work("a.txt")}), verify=[verify]))
    with started(world) as running:
        wait_until(ready.exists)
        running.kill()
        running.wait(timeout=60)
    ready.unlink()
    with started(world) as again:
        wait_until(ready.exists)
        assert len(left_over(world)) == 2, "one checkout with its folder for temporary files"
        go.touch()
        assert again.wait(timeout=60) == 0
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["prompt"] for a in world.attempts(task)] == ["first"]
    assert left_over(world) == []


def test_cancelled_in_the_middle_of_checks(world: World) -> None:
    ready = world.root / "ready"
    verify = f"touch {ready}; sleep 600"
    task = world.add(world.brief("cancelled", script({"steps": work("a.txt")}), verify=[verify]))
    with started(world) as running:
        wait_until(ready.exists)
        world.run("cancel", str(task), check=True)
        running.wait(timeout=60)
    row = world.task(task)
    assert row["status"] == "cancelled", world.story(task)
    assert world.attempts(task)[0]["ended_at"] is not None
    assert world.branch_log(task) == ["add a.txt"], "the work is kept and named"


def test_a_report_that_changes_something_is_for_a_person(world: World) -> None:
    world.add(world.brief("report", script({"steps": work("a.txt", text="My report.")}), expect="report"))
    good = world.add(world.brief("good", script({"steps": [{"text": "All is well."}]}), expect="report"))
    mute = world.add(world.brief("mute", script({"steps": [{"text": ""}]}), expect="report", verify=["false"]))
    world.run("run", "-j", "1")
    rows = {row["id"]: row for row in world.rows("select * from task")}
    assert rows[1]["status"] == "needs_human", world.story(1)
    assert "a report must change nothing" in rows[1]["status_reason"]
    assert rows[good]["status"] == "needs_review", world.story(good)
    assert rows[good]["final_text"] == "All is well."
    assert rows[mute]["status"] == "needs_human", world.story(mute)


def test_checks_accept_without_a_person_only_what_they_prove(world: World) -> None:
    """`auto_accept: checks`: every check passed. No checks, or one that was red before, is left to a person."""
    cases: dict[str, list[str]] = {"proved": ["true"], "unproved": [], "red": ["true", "./check.sh"]}
    tasks = {
        name: world.add(world.brief(name, script({"steps": work(f"{name}.txt")}), verify=verify, auto_accept="checks"))
        for name, verify in cases.items()
    }
    assert world.run("run").returncode == 0
    assert {name: world.task(task)["status"] for name, task in tasks.items()} == {
        "proved": "accepted",
        "unproved": "needs_review",
        "red": "needs_review",
    }
    rows = world.rows("select task_id, decision, kind, actor from review")
    assert rows == [{"task_id": tasks["proved"], "decision": "accepted", "kind": "checks", "actor": "dispatcher"}]


def wait_until(true: Any) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
