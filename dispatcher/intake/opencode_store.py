"""opencode's own store: `opencode.db`, SQLite, with the tables session, message and part.

opencode 1.18: `message.data` is JSON; an answer has role assistant, providerID, modelID, cost, tokens by kind, finish,
and `error` when it failed; times are epoch milliseconds. A session with a `parent_id` is a subagent: its tokens belong
to the run of its parent. The store is opened read-only and opencode may run meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dispatcher.errors import BadInput
from dispatcher.intake.runs import Run
from dispatcher.intake.talk import first_line, working_time
from dispatcher.task import OutcomeClass, Usage

HARNESS = "opencode"
_SESSIONS = "SELECT id, parent_id, directory, title, version, time_created FROM session ORDER BY time_created, id"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT data FROM part WHERE message_id = ? ORDER BY id"


def place(environ: Mapping[str, str]) -> Path:
    data = environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path(environ.get("HOME", "/")) / ".local/share") / "opencode/opencode.db"


def runs(file: Path) -> Iterator[Run]:
    """The sessions with at least one answer, oldest first."""
    if not file.is_file():
        raise BadInput(f"there is no store of opencode at {file}", hint="name the file: import --from opencode FILE")
    connection = sqlite3.connect(f"file:{_quoted(file)}?mode=ro", uri=True)
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    connection.row_factory = sqlite3.Row
    try:
        rows = connection.execute(_SESSIONS).fetchall()
        children: dict[str, list[str]] = {}
        for row in rows:
            children.setdefault(row["parent_id"] or "", []).append(row["id"])
        for row in rows:
            if not row["parent_id"] and (run := _run(connection, row, _family(row["id"], children))):
                yield run
    except sqlite3.Error as error:
        raise BadInput(f"{file} is no store of opencode that is known here: {error}") from None
    finally:
        connection.close()


def _quoted(file: Path) -> str:
    return str(file).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _family(session: str, children: Mapping[str, list[str]]) -> list[str]:
    """A session and the subagents below it, each once."""
    found, left = dict[str, None](), [session]
    while left:
        one = left.pop()
        if one not in found:
            found[one] = None
            left += children.get(one, [])
    return list(found)


def _run(connection: sqlite3.Connection, session: sqlite3.Row, family: list[str]) -> Run | None:
    messages = _messages(connection, session["id"])
    answers = [(number, data) for number, data in messages if data.get("role") == "assistant"]
    asked = [number for number, data in messages if data.get("role") == "user"]
    if not answers:
        return None
    every = [data for one in family for _, data in (messages if one == session["id"] else _messages(connection, one))]
    last = answers[-1][1]
    prompt = _text(connection, asked[0]) if asked else ""
    failed = _object(last.get("error")).get("name")
    completed = not failed and last.get("finish") == "stop"
    times = [moment for data in every for moment in _times(data)] or [session["time_created"] / 1000]
    return Run(
        key=f"opencode-{session['id']}",
        harness=HARNESS,
        harness_version=session["version"],
        model=f"{last.get('providerID', '')}/{last.get('modelID', '')}",
        session_id=session["id"],
        title=session["title"] or first_line(prompt),
        prompt=prompt,
        folder=session["directory"] or "",
        started_at=min(times),
        ended_at=max(times),
        seconds=working_time([_times(data) for data in every if data.get("role") == "assistant"]),
        outcome=OutcomeClass.COMPLETED if completed else OutcomeClass.UNKNOWN,
        reason="the model finished its answer" if completed else str(failed or "the last answer has no end"),
        final_text=_text(connection, answers[-1][0]),
        usage=_usage(every),
    )


def _messages(connection: sqlite3.Connection, session: str) -> list[tuple[str, dict[str, Any]]]:
    return [(row["id"], _object(row["data"])) for row in connection.execute(_MESSAGES, (session,))]


def _text(connection: sqlite3.Connection, message: str) -> str:
    parts = [_object(row["data"]) for row in connection.execute(_PARTS, (message,))]
    return "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def _object(value: object) -> dict[str, Any]:
    """A JSON object, or an empty one for whatever else stands there."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _times(data: Mapping[str, Any]) -> list[float]:
    times = _object(data.get("time"))
    return [times[name] / 1000 for name in ("created", "completed") if isinstance(times.get(name), int | float)]


def _usage(messages: list[dict[str, Any]]) -> Usage:
    answers = [data for data in messages if isinstance(data.get("tokens"), dict)]
    if not answers:
        return Usage()

    def total(*path: str) -> int:
        found = 0
        for data in answers:
            value: object = data["tokens"]
            for name in path:
                value = _object(value).get(name)
            found += int(value) if isinstance(value, int | float) else 0
        return found

    prices = [data["cost"] for data in answers if isinstance(data.get("cost"), int | float)]
    return Usage(
        input=total("input"),
        output=total("output"),
        reasoning=total("reasoning"),
        cache_read=total("cache", "read"),
        cache_write=total("cache", "write"),
        cost_usd=sum(prices) if prices else None,
    )
