"""Stories from the field that need the whole program: what was held, who went on, what a person was told.

The numbers in the names count the same stories as in tests/harness and tests/repository.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dispatcher.supervisor import spec
from tests.e2e.world import World, gate, marked, script, scripted_world, supervisors, until

DONE = {"text": "Done."}
WRITE = {"write": {"path": "a.txt", "content": "a"}}
WORK = [WRITE, {"commit": {"message": "the work", "files": ["a.txt"]}}, DONE]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def ended(world: World, task: int) -> list[tuple[str, str, str]]:
    return [(a["candidate"], a["prompt"], a["outcome"]) for a in world.attempts(task)]


def held(world: World) -> list[dict[str, Any]]:
    return world.rows("select * from hold where lifted_at is null order by id")


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


# --- limits, logins, models ---------------------------------------------------------------------------------------


def test_2_and_36_a_lost_login_is_held_and_another_provider_finishes_the_work(world: World) -> None:
    """A commit and a file on top, then a 403: not one more try on that login, and `status` says what to do."""
    text = world.config_text().replace("  test: {billing: free}", "  test: {billing: free}\n  other: {billing: free}")
    text = text.replace("model: scripted/s2, credential: test", "model: scripted/s2, credential: other")
    (world.home / "models.yaml").write_text(text)
    lost = {"error": {"status": 403, "message": "This organization does not allow it any more.", "type": "forbidden"}}
    first = [*WORK[:2], {"write": {"path": "b.txt", "content": "b"}}, lost]
    finish = [{"commit": {"message": "the rest", "files": ["b.txt"]}}, DONE]
    body = script({"model": "scripted/s1", "steps": first}, {"prompt": "Prompt: finish", "steps": finish})
    task = world.add(world.brief("one", body))
    later = world.add(world.brief("two", script({"steps": WORK})))
    assert world.run("run", "-j", "1").returncode == 0

    assert ended(world, task) == [("first", "first", "auth"), ("second", "finish", "completed")], world.story(task)
    assert world.branch_log(task) == ["the rest", "the work"]
    assert ended(world, later) == [("second", "first", "completed")]
    [hold] = held(world)
    assert (hold["scope"], hold["key"], hold["until"]) == ("credential", "test", None)
    shown = world.run("status", check=True)
    assert "dispatcher release test" in shown.stdout + shown.stderr


def test_25_each_free_model_is_asked_once_and_has_its_own_reset(world: World) -> None:
    """Some free models share one allowance, others have their own: only asking tells, once for each."""

    def limited(**rest: Any) -> list[dict[str, Any]]:
        said = {"status": 429, "type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."}
        return [{"error": {**said, **rest}}]

    rules: list[dict[str, Any]] = [
        {"model": "scripted/s1", "steps": limited(retry_after=3600)},
        {"model": "scripted/s2", "steps": limited(retry_after=7200)},
    ]
    one = world.add(world.brief("one", script(*rules, {"steps": WORK})))
    two = world.add(world.brief("two", script(*rules, {"model": "scripted/s3", "steps": limited()})))
    west = {**world.environment, "TZ": "America/Los_Angeles"}  # the provider's day is not this machine's
    assert world.run("run", "-j", "1", env=west).returncode == 75

    assert [(name, kind) for name, _, kind in ended(world, one)] == [
        ("first", "quota_exhausted"),
        ("second", "quota_exhausted"),
        ("third", "completed"),
    ]
    assert ended(world, two) == [("third", "first", "quota_exhausted")]
    first, second, third = held(world)
    assert [hold["scope"] for hold in (first, second, third)] == ["model"] * 3
    assert first["until"] - first["created_at"] == pytest.approx(3600, abs=30)
    assert second["until"] - second["created_at"] == pytest.approx(7200, abs=30)
    assert third["until"] % 86400 == 0, "00:00 UTC"
    row = world.task(two)
    earliest = min(hold["until"] for hold in (first, second, third))
    assert (row["status"], row["not_before"]) == ("waiting", earliest)
    assert world.run("run").returncode == 75
    assert len(world.attempts(two)) == 1, "nothing is asked before its time"


def test_29_a_cli_that_sleeps_on_a_limit_is_ended_by_its_log_line(world: World) -> None:
    """Nothing on stdout for hours: one line on stderr is all there is. Without even that, the stall ends it."""
    world.limits = {"stall": "3s"}
    world.write_config()
    rules: list[dict[str, Any]] = [
        {"model": "scripted/s1", "steps": [{"ratelimit_silent": {"message": "Rate limit exceeded"}}]},
        {"model": "scripted/s2", "steps": [{"text": "hm"}, {"hang": True}]},
        {"steps": WORK},
    ]
    task = world.do(world.brief("silent", script(*rules)))
    assert [(name, kind) for name, _, kind in ended(world, task)] == [
        ("first", "rate_limited"),
        ("second", "stalled"),
        ("third", "completed"),
    ]
    assert world.attempts(task)[0]["end_reason"] == "quota"


def test_38_and_142_models_that_are_gone_are_parked_and_one_message_names_them_all(world: World) -> None:
    """A list of free models goes stale over night: no model is asked again until somebody changed the list."""
    gone = [{"error": {"status": 400, "message": "Model not found, inaccessible, and/or not deployed"}}]
    one = world.add(world.brief("one", script({"model": "scripted/s1", "steps": gone}, {"steps": WORK})))
    two = world.add(world.brief("two", script({"model": "scripted/s[23]", "steps": gone})))
    three = world.add(world.brief("three", script({"steps": WORK})))
    assert world.run("run", "-j", "1").returncode == 1

    assert [(name, kind) for name, _, kind in ended(world, one)] == [
        ("first", "model_not_found"),
        ("second", "completed"),
    ]
    assert [name for name, _, _ in ended(world, two)] == ["second", "third"]
    assert [(hold["scope"], hold["until"]) for hold in held(world)] == [("model", None)] * 3
    for task in (two, three):
        row = world.task(task)
        assert row["status"] == "waiting", world.story(task)
        for number in (1, 2, 3):
            assert f"dispatcher release test/scripted/s{number}" in row["status_reason"]
    assert world.attempts(three) == []
    before = len(world.rows("select id from attempt"))
    world.run("run")
    assert len(world.rows("select id from attempt")) == before


def test_42_two_tasks_with_an_error_that_explains_nothing_park_the_model(world: World) -> None:
    """A typo in a model id is an UnknownError at run time: one more try, the next model, and soon no try at all."""
    masked = [{"error": {"name": "UnknownError", "message": "Unexpected server error. Check server logs for details."}}]
    body = script({"model": "scripted/s1", "steps": masked}, {"steps": WORK})
    tasks = [world.add(world.brief(name, f"Do {name}.\n\n{body}")) for name in ("one", "two", "three")]
    assert world.run("run", "-j", "1").returncode == 0

    tried = [[name for name, _, _ in ended(world, task)] for task in tasks]
    assert tried == [["first", "first", "second"], ["first", "second"], ["second"]], world.story(tasks[1])
    assert {kind for task in tasks for _, _, kind in ended(world, task)} == {"internal", "completed"}
    [hold] = held(world)
    assert (hold["key"], hold["until"]) == ("first", None)
    assert "check the model id scripted/s1" in hold["reason"]


def test_51_a_session_that_is_gone_is_one_finish_attempt(world: World) -> None:
    forget = {"shell": 'rm -r "$HOME/.local/share/scripted-worker/sessions"'}
    finish = [*WORK[1:]]
    rules: list[dict[str, Any]] = [
        {"prompt": "Prompt: finish", "steps": finish},
        {"steps": [WRITE, forget, {"exit": 1}]},
    ]
    task = world.do(world.brief("gone", script(*rules)))

    first, lost, fresh = world.attempts(task)
    assert [a["prompt"] for a in (first, lost, fresh)] == ["first", "finish", "finish"], world.story(task)
    assert fresh["session_id"] not in (None, first["session_id"])
    assert [a["counted"] for a in (lost, fresh)] == [0, 0]
    assert json.loads(world.task(task)["counters"])["finish_attempts"] == 1
    assert world.task(task)["status"] == "needs_review"


# --- output -------------------------------------------------------------------------------------------------------


def test_62_a_commit_after_the_last_byte_counts(world: World) -> None:
    """stdout fell silent, and the work went on in a process of its own for a while."""
    go = 'while [ ! -e "$TMPDIR/silent" ]; do sleep 0.05; done; git add a.txt; git commit -qm late; touch "$TMPDIR/in"'
    late = {"shell": f"({go}) > /dev/null 2>&1 &"}
    world.limits = {"stall": "8s"}
    world.write_config()
    steps = [WRITE, late, {"shell": 'touch "$TMPDIR/silent"'}, {"hang": True}]
    task = world.do(world.brief("late", script({"steps": steps}), verify=["test -f a.txt"]))
    assert ended(world, task) == [("first", "first", "stalled")], world.story(task)
    assert world.branch_log(task) == ["late"]


def test_64_a_truncated_stream_with_good_work_is_done_and_noted(world: World) -> None:
    """The CLI dropped its last events at a clean exit. Git and the checks have it all."""
    steps = [*WORK[:2], {"no_finish": True}]
    task = world.do(world.brief("cut", script({"steps": steps}), verify=["test -f a.txt"]))
    [attempt] = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert "stream truncated" in attempt["notes"]


def test_67_a_start_that_hangs_is_tried_again_and_blames_no_model(world: World) -> None:
    world.limits = {"start": "6s"}
    world.write_config()
    task = world.do(world.brief("start", script({"times": 1, "steps": [{"hang": True}]}, {"steps": WORK})))
    first, second = world.attempts(task)
    assert (first["end_reason"], first["outcome"], first["counted"]) == ("start_silence", "stalled", 0)
    assert (second["candidate"], second["outcome"]) == ("first", "completed"), world.story(task)


def test_77_and_79_bytes_that_no_terminal_should_see(world: World) -> None:
    """Escape sequences, NUL, a cut emoji: the log keeps them as they came, and no listing passes them on."""
    raw = "\x1b]0;owned\x07\x1b[2J nul \x00 \u2028 \U0001f600"
    steps = [{"stdout": f"{raw}\n"}, {"bad_bytes": True}, *WORK[:2], {"text": f"Done. {raw}"}]
    task = world.do(world.brief("bytes", script({"steps": steps})))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    stdout = (Path(world.attempts(task)[0]["folder"]) / "stdout").read_bytes()
    assert raw.encode() in stdout
    assert b"\xff\xfe\x80" in stdout
    for words in (("show", str(task)), ("log",), ("tail", str(task)), ("tail", str(task), "--raw"), ("status",)):
        said = world.run(*words, check=True).stdout
        assert not set(said) & {"\x1b", "\x07", "\x00", "\u2028"}, words
    json.loads(world.run("show", str(task), "--json", check=True).stdout)


# --- git ----------------------------------------------------------------------------------------------------------


def test_92_whoever_goes_on_is_told_where_the_work_is(world: World) -> None:
    """In the folder: commits and files by name. Not in the folder any more: the ref, from which it can be fetched."""
    limited = {"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}
    half = [*WORK[:2], {"write": {"path": "b.txt", "content": "b"}}, limited]
    take = "git fetch -q {repo} {ref} && git checkout FETCH_HEAD -- a.txt b.txt && git commit -qm 'taken over'"
    ref = "refs/dispatcher/1/3"
    rules: list[dict[str, Any]] = [
        {"model": "scripted/s1", "times": 1, "steps": half},
        {"model": "scripted/s2", "times": 1, "steps": [limited]},
        {"model": "scripted/s3", "times": 1, "steps": [limited]},
        {"steps": [{"shell": take.format(repo=world.repo, ref=ref)}, DONE]},
    ]
    task = world.add(world.brief("half", script(*rules)))
    assert task == 1
    assert world.run("run").returncode == 75
    told = (Path(world.attempts(task)[1]["folder"]) / "prompt.md").read_text()
    assert "the work" in told
    assert "Changed but not committed:\n- b.txt" in told
    assert "## Earlier work" not in told

    assert world.attempts(task)[-1]["snapshot_ref"] == ref, world.story(task)
    shutil.rmtree(world.task(task)["copy_path"])
    for hold in held(world):
        world.run("release", hold["key"], check=True)
    world.run("run", check=True)
    last = world.attempts(task)[-1]
    told = (Path(last["folder"]) / "prompt.md").read_text()
    assert f"git fetch {world.repo} {ref}" in told
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.branch_log(task) == ["taken over"]
    assert world.git("show", f"{world.task(task)['branch']}:b.txt") == "b"


def test_93_a_grandchild_that_commits_while_its_tree_is_ended(world: World) -> None:
    """Its parent is gone and its commit comes last: git is asked only after the whole tree is dead."""
    commit = "git add a.txt; git commit -qm late; exit"
    code = f"trap '{commit}' TERM; touch $TMPDIR/ready; while :; do sleep 0.05; done"
    start = f'setsid nohup sh -c "{code}" > /dev/null 2>&1 & until [ -e "$TMPDIR/ready" ]; do sleep 0.05; done'
    task = world.do(world.brief("late", script({"steps": [WRITE, {"shell": start}, DONE]})))

    assert ended(world, task) == [("first", "first", "completed")], world.story(task)
    assert world.branch_log(task) == ["late"]
    assert world.attempts(task)[0]["survivors"] == 0


def test_96_a_lock_that_a_dead_git_left_is_removed_and_logged_before_the_finish_prompt(world: World) -> None:
    broken = [WRITE, {"shell": "touch .git/index.lock"}, {"exit": 1}]
    rules: list[dict[str, Any]] = [{"prompt": "Prompt: finish", "steps": WORK[1:]}, {"steps": broken}]
    task = world.do(world.brief("lock", script(*rules)))
    first, _ = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert "index.lock" in first["notes"]
    assert "removed" in first["notes"]
    assert world.branch_log(task) == ["the work"]


def test_102_and_106_a_hook_that_always_refuses_ends_with_a_person(world: World) -> None:
    """Two finish prompts, no third, no --no-verify of our own, and the work is on a ref."""
    executable(world.repo / ".git/hooks/pre-commit", "echo no tabs please >&2\nexit 1\n")
    task = world.do(world.brief("hook", script({"steps": WORK})), expect_exit=1)
    row = world.task(task)
    assert row["status"] == "needs_human", world.story(task)
    assert [(name, prompt) for name, prompt, _ in ended(world, task)] == [
        ("first", "first"),
        ("first", "finish"),
        ("first", "finish"),
    ]
    ref = world.attempts(task)[-1]["snapshot_ref"]
    assert "the hook pre-commit (exit code 1) refused the commit; it said: no tabs please" in row["status_reason"]
    assert ref in row["status_reason"]
    for attempt in world.attempts(task)[1:]:
        assert "no tabs please" in (Path(attempt["folder"]) / "prompt.md").read_text()
    assert world.git("show", f"{ref}:a.txt") == "a"
    assert world.branch_log(task) == []
    world.run("run")
    assert len(world.attempts(task)) == 3


@pytest.mark.parametrize("gpg", ["echo cannot open tty >&2; exit 2", "exec sleep 600"], ids=["fails", "hangs"])
def test_103_a_commit_that_cannot_be_signed_is_for_a_person_and_no_other_model(world: World, gpg: str) -> None:
    program = executable(world.root / "gpg", f"{gpg}\n")
    world.git("config", "commit.gpgsign", "true")
    world.git("config", "gpg.program", str(program))
    warned = world.run("doctor", "--repo", str(world.repo))
    assert "signed" in warned.stdout
    world.limits = {"hard_cap": "6s"}
    world.write_config()
    task = world.do(world.brief("signed", script({"steps": WORK})), expect_exit=1)

    row = world.task(task)
    assert ended(world, task) == [("first", "first", "git_signing")], world.story(task)
    assert row["status"] == "needs_human"
    assert "gpg" in row["status_reason"]
    assert world.attempts(task)[0]["snapshot_ref"] in row["status_reason"]
    assert held(world) == []


@pytest.mark.parametrize("record", [True, False], ids=["exit record", "no exit record"])
def test_108_finished_work_is_settled_and_never_sent_out_again(world: World, record: bool) -> None:
    """The run died, its row still says running, and the copy is clean and ahead of its base."""
    reached, wait = gate(world.root)
    steps = [*WORK[:2], wait, DONE]
    task = world.add(world.brief("finished", script({"steps": steps}), verify=["test -f a.txt"]))
    run = world.start("run")
    until(reached.exists, "the commit")
    folder = Path(world.attempts(task)[0]["folder"])
    run.kill()
    run.wait()
    if record:
        (world.root / "go").write_text("\n")
        until(lambda: spec.read_exit(folder) is not None, "the end of the worker")
    else:
        for pid in (*supervisors(world.home / "logs"), *marked(str(folder))):
            with suppress(ProcessLookupError):  # who was killed takes others along
                os.kill(pid, signal.SIGKILL)
    assert world.task(task)["status"] == "running"
    world.run("run", check=True)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["outcome"] for a in world.attempts(task)] == ["completed" if record else "lost"]
    assert world.branch_log(task) == ["the work"]


def test_109_a_home_folder_is_refused_as_a_target(world: World) -> None:
    """When it is queued, and when it is run: a repository may become one later."""
    world.git("init", "-q", cwd=world.user_home)
    for target in (world.user_home, Path("/")):
        refused = world.run("add", str(world.brief("wide", "Tidy up.", repo=str(target))))
        assert refused.returncode == 2, refused.stdout
        assert "hint:" in refused.stderr
    task = world.add(world.brief("wide", script({"steps": WORK})))
    with sqlite3.connect(world.home / "logs/dispatcher.db") as database:
        database.execute("update task set repository = ?", (str(world.user_home),))
    database.close()
    assert world.run("run").returncode == 1
    assert "too large to be a target" in world.task(task)["status_reason"]
    assert world.attempts(task) == []


def test_110_a_repository_that_is_dirty_from_the_start_is_neither_refused_nor_finished(world: World) -> None:
    (world.repo / "value.txt").write_text("a person is here\n")
    (world.repo / "notes.txt").write_text("mine\n")
    text = f"repositories:\n  {world.repo}: {{copy: in_place}}\n"
    (world.home / "models.yaml").write_text(world.config_text() + text)
    task = world.do(world.brief("dirty", script({"steps": WORK})))
    assert ended(world, task) == [("first", "first", "completed")], world.story(task)
    assert world.git("status", "--porcelain").splitlines() == ["M value.txt", "?? notes.txt"]


# --- configuration ------------------------------------------------------------------------------------------------


def test_140_doctor_compares_ids_with_what_the_cli_lists(world: World) -> None:
    listing = 'case "$1" in --version) echo 1.18.33;; models) echo opencode/big-pickle; echo openrouter/a/b:free;; esac'
    program = executable(world.root / "fake-opencode", f"{listing}\n")
    text = world.config_text().replace("harness: scripted", "harness: opencode")
    text = text.replace("scripted/s1", "opencode/big-pickel").replace("scripted/s2", "openrouter/a/b:free")
    (world.home / "models.yaml").write_text(f"{text}harnesses: {{opencode: {{path: '{program}'}}}}\n")
    said = json.loads(world.run("doctor", "--json").stdout)
    models = {row["text"].split(":")[0]: row for row in said if row["area"] == "models"}
    assert (models["first"]["state"], models["second"]["state"]) == ("bad", "ok")
    assert "opencode/big-pickel is not in `opencode models`" in models["first"]["text"]
    assert "opencode/big-pickle" in models["first"]["hint"]


def test_144_another_model_than_the_pinned_one_ends_the_run(world: World) -> None:
    """The repository's own settings changed it: the model that answered is in the log, and the candidate is held."""
    called = json.dumps({"type": "call", "agent": "build", "provider": "scripted", "model": "cheap", "at": 0})
    other = {"shell": f"echo '{called}' >> \"$DISPATCHER_BRIDGE\""}
    task = world.do(world.brief("other", script({"model": "scripted/s1", "steps": [other, DONE]}, {"steps": WORK})))
    first, second = world.attempts(task)
    assert (first["outcome"], first["observed_model"]) == ("model_mismatch", "scripted/cheap"), world.story(task)
    assert (second["candidate"], second["outcome"]) == ("second", "completed")
    [hold] = held(world)
    assert (hold["scope"], hold["key"], hold["until"]) == ("candidate", "first", None)
