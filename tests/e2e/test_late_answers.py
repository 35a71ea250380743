"""Answers that come late: on another day, for a row of an older version, after the CLI lost its session; and who is
told of a question meanwhile. Real CLIs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.test_approvals import COMMIT, DONE, Published, parked, until
from tests.e2e.world import marked, real_world

pytestmark = pytest.mark.real_cli

DAY = 86400


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Published]:
    cli: Cli = request.param
    with ModelServer() as server:
        made = real_world(tmp_path, cli, server)
        yield Published(made.root, made.harness, made.server, made.program).prepare()
    assert marked(str(tmp_path)) == [], "a process was left behind"


def flag_task(world: Published) -> int:
    """Parked at the call; when it is approved the model goes on to the end."""
    call = world.set_flag()
    again = [{"when": "Prompt: approved", "steps": [call, COMMIT, DONE]}] if world.harness == "opencode" else []
    return parked(world, *again, {"text": "I set it.", **call}, COMMIT, DONE)


def change(world: Published, *statements: str) -> None:
    import sqlite3

    connection = sqlite3.connect(world.home / "logs/dispatcher.db", timeout=10)
    try:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


def a_day_goes_by(world: Published) -> None:
    """Every time that is stored lies a day further back."""
    times = {
        "task": ("created_at", "updated_at", "claimed_at"),
        "attempt": ("started_at", "ended_at"),
        "approval": ("asked_at",),
        "event": ("at",),
    }
    sets = {table: ", ".join(f"{name} = {name} - {DAY}" for name in names) for table, names in times.items()}
    change(world, *(f"UPDATE {table} SET {said}" for table, said in sets.items()))


def as_an_older_version_left_it(world: Published) -> None:
    """Only the columns that a row cannot do without."""
    columns = world.rows("select name from pragma_table_info('approval') where not \"notnull\" and not pk")
    optional = {column["name"] for column in columns}
    assert {"session_id", "call_id", "transcript", "expires_at", "remember"} <= optional
    change(world, f"UPDATE approval SET {', '.join(f'{name} = NULL' for name in sorted(optional))}")


def test_another_day_and_a_row_of_an_older_version(world: Published) -> None:
    task = flag_task(world)
    a_day_goes_by(world)
    as_an_older_version_left_it(world)
    world.run("run")  # looks, and leaves it
    (row,) = world.approvals()
    assert row["status"] == "pending"
    assert DAY < row["waited"] < 2 * DAY

    world.run("approve", "1", check=True)
    world.run("run", check=True)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert len(world.writes) == 1
    assert [row["status"] for row in world.approvals()] == ["consumed"]
    assert len({attempt["session_id"] for attempt in world.attempts(task)}) == 1


def test_the_model_reacts_to_the_reason_of_a_denial(world: Published) -> None:
    """The reason is in what the model is asked next, and what it says then stands behind it in its session."""
    reason, reaction = "not before the release freeze is over", "Then I leave the flag as it is."
    reacts = {"when": {"request": reason}, "steps": [{"text": reaction, **COMMIT}, DONE]}
    task = parked(world, reacts, {"text": "I set it.", **world.set_flag()}, DONE)
    world.run("deny", "1", "--reason", reason, check=True)
    world.run("run", check=True)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.writes == []
    seen = [json.dumps(request.body) for request in world.prompts(0)]
    told = [text for text in seen if reason in text]
    assert reaction not in told[0]
    assert told[-1].index(reason) < told[-1].index(reaction)


def test_an_answer_after_the_cli_deleted_its_session(world: Published) -> None:
    """claude's session is put back from the copy; opencode starts a fresh one with the prompt that names the call."""
    task = flag_task(world)
    (before,) = world.attempts(task)
    if world.harness == "claude":
        session = Path(world.rows("select transcript from approval")[0]["transcript"])
        assert session.is_file()
        shutil.rmtree(session.parent)
    else:
        shutil.rmtree(world.user_home / ".local/share/opencode")
    world.run("approve", "1", check=True)
    world.run("run", check=True)

    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert len(world.writes) == 1
    assert [row["status"] for row in world.approvals()] == ["consumed"]
    last = world.attempts(task)[-1]
    assert last["prompt"] == "approved"
    assert (last["session_id"] == before["session_id"]) is (world.harness == "claude")


def test_a_person_is_told_and_can_watch(world: Published) -> None:
    if world.harness != "claude":
        pytest.skip("the same for both")
    messages = world.root / "messages"
    messages.mkdir()
    world.extra_config += f"notify: 'cat > {messages}/$$; mv {messages}/$$ {messages}/$$.json'\n"
    world.write_config()
    parked(world, {"text": "I set it.", **world.set_flag()}, DONE)

    def told() -> dict[str, dict[str, Any]]:
        found = [json.loads(file.read_text()) for file in messages.glob("*.json")]
        return {message["event"]: message for message in found}

    until(lambda: {"approval", "awaiting_approval"} <= set(told()))
    call = told()["approval"]["approval"]
    assert (call["id"], call["rule"], json.loads(call["input"])["value"]) == (1, "set_flag", "on")
    assert told()["awaiting_approval"]["task"]["status"] == "awaiting_approval"

    watching = subprocess.Popen(
        world.command("approvals", "--watch"), env=world.environment, cwd=world.root, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    try:
        assert "1 waiting, 0 approved today" in "".join(until_line(watching, "waiting"))
        world.run("approve", "1", check=True)
        assert "0 waiting, 1 approved today" in "".join(until_line(watching, "waiting"))
    finally:
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        watching.wait(30)
        watching.stdout.close()
    assert watching.returncode in (0, 130)


def until_line(process: subprocess.Popen[str], word: str) -> list[str]:
    """What it prints up to a line with this word; it blocks until then."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            break
    return lines
