"""Stories from the field on the real CLIs: how they are started, whose model answers, what a killed run has used."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher import harness
from dispatcher.demo.model_server import ModelServer
from tests.e2e.world import PROGRAM, World, marked, real_world, script, scripted_world, until
from tests.intake.test_rebuild import lose

EDIT = {"text": "I will set the value.", "shell": "echo 2 > value.txt"}
COMMIT = {"shell": "git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2, committed."}


def built(root: Path, name: str, server: ModelServer) -> World:
    return scripted_world(root) if name == "scripted" else real_world(root, name, server)  # type: ignore[arg-type]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path, server: ModelServer) -> Iterator[World]:
    yield built(tmp_path, request.param, server)
    assert marked(str(tmp_path)) == [], "a process was left behind"


# --- the start ----------------------------------------------------------------------------------------------------

# From the tool up to the worker, which is known by its output; what its standard input is, and what it was given.
LOOK = """p=$$
until case "$(readlink /proc/$p/fd/1)" in */stdout) true ;; *) false ;; esac; do
    p=$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f2)
done
readlink /proc/$p/fd/0 > "$TMPDIR/stdin"
tr '\\0' '\\n' < /proc/$p/environ > "$TMPDIR/environ"
"""
NESTED = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SSE_PORT": "4711",
    "OPENCODE": "1",
    "OPENCODE_PID": "4711",
}
TAIL = "The last words of the brief are: aubergine."


@pytest.mark.real_cli
@pytest.mark.parametrize("name", harness.names())
def test_57_to_60_75_and_87_started_by_an_agent_with_an_open_pipe_as_stdin(
    name: str, tmp_path: Path, server: ModelServer
) -> None:
    """Every CLI there is, so also one that comes later: a pipe that nobody closes is not its input, the 300 KB of the
    brief arrive, once, and it does not find itself inside of another agent."""
    world = built(tmp_path, name, server)
    (world.repo / "look.sh").write_text(LOOK)
    world.git("add", ".")
    world.git("commit", "-qm", "a script that looks around")
    steps = [{"shell": "sh ./look.sh"}, {"shell": f"{EDIT['shell']}; {COMMIT['shell']}"}, DONE]
    brief = "Make value.txt hold 2.\n\n" + "word " * 60_000 + f"\n\n{TAIL}\n"
    if name == "scripted":
        brief += script({"steps": steps})
    else:
        world.script(0, steps)
    task = world.add(world.brief("nested", brief))
    ours, theirs = os.pipe()
    somebodys = os.readlink(f"/proc/self/fd/{ours}")
    os.write(theirs, b"a line of somebody's list\n")
    try:
        ran = subprocess.run(
            [str(PROGRAM), "run"],
            env={**world.environment, **NESTED},
            stdin=ours,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=240,
            check=False,
        )
        left = os.read(ours, 100)
    finally:
        os.close(ours)
        os.close(theirs)
    assert ran.returncode == 0, (ran.stderr, world.story(task))
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert left == b"a line of somebody's list\n", "the list of who started us was eaten"

    [attempt] = world.attempts(task)
    folder, tmp = Path(attempt["folder"]), Path(world.task(task)["copy_path"]).parent / "tmp"
    stdin = (tmp / "stdin").read_text().strip()
    assert stdin == str(folder / "prompt.md") or (stdin.startswith("pipe:") and stdin != somebodys)
    told = dict(line.split("=", 1) for line in (tmp / "environ").read_text().splitlines() if "=" in line)
    assert told["HOME"] == str(world.user_home)
    assert not {key for key, value in NESTED.items() if told.get(key) == value}
    assert "no stdin data" not in (folder / "stderr").read_text(), "it waited for input"
    prompt = (folder / "prompt.md").read_text()
    assert len(prompt) > 300_000
    asked = [request.text for request in world.prompts(0)] if name != "scripted" else [prompt]
    assert [text.count(TAIL) for text in asked] == [1] * len(asked)
    assert marked(str(tmp_path)) == [], "a process was left behind"


# --- the model that answers ---------------------------------------------------------------------------------------


@pytest.mark.real_cli
@pytest.mark.parametrize("when", ["first answer", "last answer"])
def test_144_another_model_answers_the_real_claude(when: str, tmp_path: Path, server: ModelServer) -> None:
    """A gateway that puts a cheaper model in the place of the pinned one. In the last answer nobody can end the run any
    more; the candidate is held all the same."""
    world = real_world(tmp_path, "claude", server)
    other: dict[str, Any] = {"model": "claude-haiku-4-5-20251001"}
    nap = {"shell": "true && sleep 60"}
    steps = [{**EDIT, **other}, nap] if when == "first answer" else [EDIT, COMMIT, {**DONE, **other}]
    world.script(0, [*steps, DONE])
    world.script(1, [EDIT, COMMIT, DONE])
    task = world.add(world.brief("other", "Make value.txt hold 2."))
    world.run("run")

    first, *rest = world.attempts(task)
    assert (first["outcome"], first["observed_model"]) == ("model_mismatch", other["model"]), world.story(task)
    assert "claude-haiku-4-5-20251001 answers instead of claude-sonnet-4-5" in first["outcome_reason"]
    assert (first["counted"], first["survivors"], first["model_evidence"]) == (0, 0, "confirmed")
    assert first["end_reason"] == "mismatch" or when == "last answer"
    [hold] = world.rows("select * from hold where lifted_at is null")
    assert (hold["scope"], hold["key"], hold["until"]) == ("candidate", "first", None)
    assert [a["candidate"] for a in rest] == ["second"], world.story(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.mark.real_cli
def test_144_an_alias_that_the_users_settings_point_to_another_family(tmp_path: Path, server: ModelServer) -> None:
    """claude names the model that it is going to ask in its first event."""
    world = real_world(tmp_path, "claude", server)
    settings = world.user_home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": {"ANTHROPIC_DEFAULT_SONNET_MODEL": "claude-haiku-4-5"}}))
    text = world.config_text().replace("model: claude-sonnet-4-5,", "model: sonnet, floating: true,")
    (world.home / "models.yaml").write_text(text)
    world.script(1, [{"shell": "true && sleep 60"}, DONE])
    world.script(2, [EDIT, COMMIT, DONE])
    task = world.add(world.brief("alias", "Make value.txt hold 2.", candidates=["first", "third"]))
    world.run("run")

    first, *rest = world.attempts(task)
    assert (first["outcome"], first["end_reason"]) == ("model_mismatch", "mismatch"), world.story(task)
    assert first["outcome_reason"] == "claude-haiku-4-5 answers instead of sonnet"
    assert [(a["candidate"], a["observed_model"]) for a in rest] == [("third", "claude-opus-4-5")], world.story(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.mark.real_cli
def test_144_an_agent_of_the_users_own_brings_another_model_to_the_real_opencode(
    tmp_path: Path, server: ModelServer
) -> None:
    """opencode prints no model; our plugin sees each call. The main call keeps the pinned model whatever the person's
    configuration says, a sub-agent does not."""
    world = real_world(tmp_path, "opencode", server)
    config = world.user_home / ".config/opencode/opencode.json"
    agents = {name: {"model": "scripted/m2"} for name in ("build", "general")}
    config.write_text(json.dumps({**json.loads(config.read_text()), "model": "scripted/m2", "agent": agents}))
    ask = {"description": "look", "prompt": "Look around.", "subagent_type": "general"}
    world.script(0, [EDIT, {"tool": {"name": "task", "input": ask}}, DONE])
    world.script(1, [{"when": "Look around.", "steps": [{"shell": "true && sleep 60"}]}, EDIT, COMMIT, DONE])
    task = world.add(world.brief("other", "Make value.txt hold 2."))
    world.run("run")

    first, *rest = world.attempts(task)
    assert (first["outcome"], first["end_reason"]) == ("model_mismatch", "mismatch"), world.story(task)
    assert "scripted/m2 was called instead of scripted/m1" in first["outcome_reason"]
    assert len(world.prompts(0)) == 2, "the main calls went to the pinned model"
    [hold] = world.rows("select * from hold where lifted_at is null")
    assert (hold["scope"], hold["key"], hold["until"]) == ("candidate", "first", None)
    assert [a["candidate"] for a in rest] == ["second"], world.story(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert marked(str(tmp_path)) == [], "a process was left behind"


# --- silence ------------------------------------------------------------------------------------------------------


@pytest.mark.real_cli
def test_66_a_sub_agent_works_while_standard_output_is_silent(tmp_path: Path, server: ModelServer) -> None:
    """opencode prints nothing of a sub-agent's session, for longer than the stall limit; our plugin tells of its calls,
    which sleep and use no CPU."""
    world = real_world(tmp_path, "opencode", server)
    world.limits = {"stall": "10s"}
    world.write_config()
    ask = {"description": "look", "prompt": "Look around.", "subagent_type": "general"}
    naps = [{"shell": "true && sleep 6"}, {"shell": "true; sleep 6"}, {"text": "I looked."}]
    world.script(
        0, [{"when": "Look around.", "steps": naps}, {"tool": {"name": "task", "input": ask}}, EDIT, COMMIT, DONE]
    )
    task = world.add(world.brief("silent", "Make value.txt hold 2."))
    world.run("run")

    [attempt] = world.attempts(task)
    assert (attempt["outcome"], attempt["end_reason"]) == ("completed", "exited"), world.story(task)
    assert world.task(task)["status"] == "needs_review"
    lines = (Path(attempt["folder"]) / "stdout").read_text().splitlines()
    times = [json.loads(line)["timestamp"] / 1000 for line in lines]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) > 10, "it was silent for that long"
    assert marked(str(tmp_path)) == [], "a process was left behind"


# --- what a killed run has used -----------------------------------------------------------------------------------


@pytest.mark.real_cli
def test_a_killed_run_and_one_that_resumed_it_are_each_counted_once(world: World) -> None:
    """Ended twice in the middle of a tool call. claude's own record has every answer that ended; opencode tells of an
    answer once its tools are through. The second run goes on in the same session and counts its own answers only."""

    def nap(number: int) -> dict[str, str]:
        return {"shell": f'touch "$TMPDIR/reached-{number}"; sleep 60'}

    def use(step: dict[str, Any], tokens: int, output: int) -> dict[str, Any]:
        return {**step, "usage": {"input": tokens, "output": output}}

    on = {"when": "Prompt: continue", "steps": [use(COMMIT, 2000, 70), use(nap(2), 2100, 80)]}
    world.script(0, [on, use(EDIT, 1000, 50), use(nap(1), 1100, 60)])
    task = world.add(world.brief("killed", "Make value.txt hold 2."))
    for number in (1, 2):
        run = world.start("run")
        until(lambda: world.task(task)["copy_path"] is not None, "the copy")
        reached = Path(world.task(task)["copy_path"]).parent / f"tmp/reached-{number}"
        until(reached.exists, f"the tool of run {number}", 120)
        world.run("pause", str(task), check=True)
        run.wait(60)
        world.run("resume", str(task), check=True)

    first, second = world.attempts(task)
    assert (first["prompt"], second["prompt"]) == ("first", "continue"), world.story(task)
    assert first["session_id"] == second["session_id"] is not None
    used = [(a["tokens_input"], a["tokens_output"]) for a in (first, second)]
    if world.harness == "claude":
        assert used == [(2100, 110), (4100, 150)]
        assert [a["cost_usd"] for a in (first, second)] == [None, None]
        assert all("2 of 2 answers, from claude's own record" in a["notes"] for a in (first, second))
    else:
        assert used == [(1000, 50), (2000, 70)]
        assert [a["cost_usd"] for a in (first, second)] == [pytest.approx(0.0011), pytest.approx(0.00214)]
        assert all("tokens and cost of 1 that ended" in a["notes"] for a in (first, second))
    assert all("tokens are partial" in a["notes"] for a in (first, second))

    lose(world, ".journal.jsonl")
    world.run("import", "--rebuild", check=True)
    again = [(a["tokens_input"], a["tokens_output"]) for a in world.attempts(task)]
    assert again == used, "told anew from what the attempts and the CLI left behind"
