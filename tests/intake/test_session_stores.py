"""Sessions that the real opencode and the real claude have run by hand, read from their own stores."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher import intake
from dispatcher.demo.model_server import ModelServer
from dispatcher.task import OutcomeClass
from tests.clis import Cli
from tests.e2e.world import MODELS, World, real_world

STEPS = [{"text": "I will look.", "shell": "echo 2 > value.txt"}, {"text": "The value is 2 now."}]
BROKEN = [{"error": {"status": 400, "message": "something broke"}, "repeat": True}]


def by_hand(world: World, prompt: str, model: str) -> subprocess.CompletedProcess[str]:
    """As a person types it, in the repository."""
    assert world.server is not None
    words = {
        "opencode": [str(world.program), "run", "--model", model],
        "claude": [str(world.program), "-p", "--model", model, "--permission-mode", "acceptEdits"],
    }[world.harness]
    environment = {**world.environment, "OPENCODE_DISABLE_MODELS_FETCH": "1", "ANTHROPIC_BASE_URL": world.server.url}
    environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    return subprocess.run(
        words, input=prompt, env=environment, cwd=world.repo, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        made = real_world(tmp_path, cli, server)
        # A credential of another name: what was run by hand is booked where models.yaml says who pays.
        yield made


@pytest.mark.real_cli
def test_what_was_run_by_hand_counts_too(world: World) -> None:
    model = world.full_id(0)
    world.script(0, STEPS)
    done = by_hand(world, "# Look at the value\n\nSay what it is.", model)
    assert done.returncode == 0, done.stderr
    world.script(1, BROKEN)
    by_hand(world, "This one fails.", world.full_id(1))

    said = world.run("import", "--from", world.harness, check=True)
    assert f"2 runs of {world.harness} added as tasks" in said.stderr
    rows = json.loads(world.run("log", "--json", check=True).stdout)
    good = next(row for row in rows if row["outcome"] == "completed")
    bad = next(row for row in rows if row["outcome"] != "completed")
    assert (good["harness"], good["model"], good["source"]) == (world.harness, model, "import")
    assert (good["candidate"], good["credential"]) == ("first", "test"), "the entry of models.yaml with this model"
    assert good["repository"] == os.path.realpath(world.repo)
    assert good["harness_version"]
    assert good["input_tokens"] >= 2400, "two calls of the model"
    assert good["output_tokens"] >= 68
    assert good["list_price_usd"] > 0
    assert 0 < good["seconds"] < 120
    assert (good["status"], bad["status"]) == ("accepted", "cancelled")
    shown = json.loads(world.run("show", str(good["task"]), "--json", check=True).stdout)
    assert shown["task"]["final_text"] == "The value is 2 now."
    assert "Look at the value" in shown["task"]["brief_text"]
    again = world.run("import", "--from", world.harness, check=True)
    assert "0 runs" in again.stderr
    assert "2 were in the log already" in again.stderr


@pytest.mark.real_cli
def test_our_own_runs_are_not_counted_twice(world: World) -> None:
    world.script(0, [{"shell": "echo 2 > value.txt && git commit -qam two"}, {"text": "Done."}])
    world.do(world.brief("own", "Make it 2."))
    said = world.run("import", "--from", world.harness, check=True)
    assert "0 runs" in said.stderr, said.stderr
    assert "1 were in the log already" in said.stderr


# --- stores that nobody would wish for ---


def claude_file(folder: Path, lines: list[Any]) -> Path:
    file = folder / "projects" / "-x" / "0000.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return folder / "projects"


def answer(at: str, number: str = "m", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": number, "model": "claude-x", "content": [{"type": "text", "text": "hi"}], "usage": usage, **more}
    return {"type": "assistant", "timestamp": f"2026-11-29T{at}Z", "message": message}


def asked(at: str, text: str = "Do it") -> dict[str, Any]:
    return {"type": "user", "timestamp": f"2026-11-29T{at}Z", "cwd": "/r", "message": {"content": text}}


def test_pieces_of_one_answer_count_once_and_pauses_do_not(tmp_path: Path) -> None:
    """Two pieces of message m, then an hour of the person's lunch, then one more turn of ten seconds."""
    lines = [asked("10:00:00"), answer("10:00:05"), answer("10:00:06"), asked("11:00:00"), answer("11:00:10", "n")]
    [run] = intake.sessions("claude", claude_file(tmp_path, lines), {})
    assert (run.usage.input, run.usage.output) == (20, 10)
    assert run.seconds == 16.0
    assert run.usage.cost_usd is None, "this version did not write what it cost"


def test_damage_is_stepped_over(tmp_path: Path) -> None:
    lines = ["{torn", "[]", "null", {"type": "user"}, {"type": "assistant", "message": []}, asked("10:00:00")]
    lines += [answer("10:00:01", usage={"input_tokens": "many"}), {"type": "cost-state", "totalCostUSD": "much"}]
    [run] = intake.sessions("claude", claude_file(tmp_path, lines), {})
    assert run.outcome is OutcomeClass.COMPLETED
    assert run.usage.input == 0
    assert list(intake.sessions("claude", claude_file(tmp_path / "b", ["{}", asked("10:00:00")]), {})) == []


def opencode_file(folder: Path, fill: Callable[[sqlite3.Connection], None]) -> Path:
    file = folder / "opencode.db"
    connection = sqlite3.connect(file)
    connection.executescript(
        "CREATE TABLE session (id, parent_id, directory, title, version, time_created);"
        "CREATE TABLE message (id, session_id, time_created, data); CREATE TABLE part (id, message_id, data);"
    )
    fill(connection)
    connection.commit()
    connection.close()
    return file


def test_subagents_belong_to_the_run_that_asked_them(tmp_path: Path) -> None:
    told = {"role": "assistant", "providerID": "p", "modelID": "m", "finish": "stop", "cost": 0.5}
    told |= {"tokens": {"input": 10, "output": 1, "cache": {"read": 3}}, "time": {"created": 1000, "completed": 3000}}

    def fill(db: sqlite3.Connection) -> None:
        for number, parent in (("a", None), ("b", "a"), ("c", "b")):
            db.execute("INSERT INTO session VALUES (?, ?, '/r', 'T', '1.18', 1000)", (number, parent))
            db.execute("INSERT INTO message VALUES (?, ?, 1, ?)", (f"m{number}", number, json.dumps(told)))
        db.execute("INSERT INTO message VALUES ('x', 'a', 0, 'no json')")

    [run] = intake.sessions("opencode", opencode_file(tmp_path, fill), {})
    assert (run.session_id, run.model) == ("a", "p/m")
    assert (run.usage.input, run.usage.cache_read, run.usage.cost_usd) == (30, 9, 1.5)
    assert run.seconds == 2.0


def test_another_database_is_refused(tmp_path: Path) -> None:
    from dispatcher.errors import BadInput

    file = tmp_path / "other.db"
    sqlite3.connect(file).close()
    with pytest.raises(BadInput, match="is no store of opencode"):
        list(intake.sessions("opencode", file, {}))


def test_the_models_of_the_world_are_pinned() -> None:
    assert all(len(names) == 3 for names in MODELS.values())
