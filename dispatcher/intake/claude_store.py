"""claude's own store: `projects/<folder>/<session>.jsonl` below its configuration folder, one JSON object a line.

claude 2.1: lines of type user and assistant carry timestamp, cwd, version and sessionId; the pieces of one answer share
`message.id` and each repeat its usage, so the last one counts; API errors are answers of the model `<synthetic>`. The
last `cost-state` holds the list price of the whole session; older versions have none, and the price is then unknown.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dispatcher.errors import BadInput
from dispatcher.harness.claude.said import SYNTHETIC
from dispatcher.harness.claude.usage import PLAIN_USAGE
from dispatcher.intake.runs import Run
from dispatcher.intake.talk import first_line, working_time
from dispatcher.supervisor.transcript import lines
from dispatcher.task import OutcomeClass, Usage

HARNESS = "claude"
_LONGEST = 64 * 1024 * 1024


def place(environ: Mapping[str, str]) -> Path:
    own = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(own) if own else Path(environ.get("HOME", "/")) / ".claude") / "projects"


def record(store: str, session: str | None) -> Iterator[bytes]:
    """The lines of one session, as they are; none when the store or the session is not known."""
    if store and session:
        for file in Path(store).glob(f"*/{glob.escape(session)}.jsonl"):
            yield from lines(file)


def runs(where: Path) -> Iterator[Run]:
    """The sessions with at least one answer; `where` is the folder `projects`, one project, or one session."""
    if not where.is_file() and not where.is_dir():
        raise BadInput(f"there is no store of claude at {where}", hint="name the folder: import --from claude FOLDER")
    files = [where] if where.is_file() else sorted({*where.glob("*.jsonl"), *where.glob("*/*.jsonl")})
    for file in files:
        if file.is_file() and (run := _run(file)):  # a named pipe would be read for ever
            yield run


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """Those that are there now: claude may go on writing."""
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        while line := opened.readline(min(_LONGEST, size - opened.tell())):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue  # a torn line, or one that is too long
            if isinstance(entry, dict):
                yield entry


def _run(file: Path) -> Run | None:
    entries = list(_lines(file))
    answers = [
        entry for entry in entries if entry.get("type") == "assistant" and isinstance(entry.get("message"), dict)
    ]
    real = [entry for entry in answers if entry["message"].get("model") not in (None, SYNTHETIC)]
    asked = [entry for entry in entries if entry.get("type") == "user" and _typed(entry)]
    times = [moment for entry in entries if (moment := _time(entry)) is not None]
    if not answers or not times:
        return None
    last, prompt = answers[-1], _text(asked[0]) if asked else ""
    failed = last["message"].get("model") == SYNTHETIC or bool(last.get("isApiErrorMessage"))
    completed = not failed and last["message"].get("stop_reason") in ("end_turn", "stop_sequence", None)
    about = next((entry for entry in entries if entry.get("cwd")), {})
    return Run(
        key=f"claude-{file.stem}",
        harness=HARNESS,
        harness_version=str(about["version"]) if about.get("version") else None,
        model=str(real[-1]["message"]["model"]) if real else SYNTHETIC,
        session_id=file.stem,
        title=first_line(prompt),
        prompt=prompt,
        folder=str(about.get("cwd", "")),
        started_at=min(times),
        ended_at=max(times),
        seconds=working_time(_turns(entries)),
        outcome=OutcomeClass.COMPLETED if completed else OutcomeClass.UNKNOWN,
        reason="the model finished its answer" if completed else str(last.get("error") or "the last answer has no end"),
        final_text=_text(last),
        usage=_usage(real, entries),
    )


def _typed(entry: Mapping[str, Any]) -> bool:
    """Whether a person (or a program) said this; results of tools are lines of type user, too."""
    content = (entry.get("message") or {}).get("content") if isinstance(entry.get("message"), dict) else None
    if isinstance(content, list):
        return not any(isinstance(part, dict) and part.get("type") == "tool_result" for part in content)
    return isinstance(content, str) and not entry.get("isMeta")


def _text(entry: Mapping[str, Any]) -> str:
    content = entry["message"].get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type") == "text"
    )


def _time(entry: Mapping[str, Any]) -> float | None:
    if entry.get("type") not in ("user", "assistant"):
        return None
    try:
        return datetime.fromisoformat(str(entry["timestamp"])).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


def _turns(entries: list[dict[str, Any]]) -> list[list[float]]:
    """Times from one typed message to the next: waiting for the person is no work."""
    turns: list[list[float]] = []
    for entry in entries:
        moment = _time(entry)
        if moment is None:
            continue
        if not turns or (entry["type"] == "user" and _typed(entry)):
            turns.append([])
        turns[-1].append(moment)
    return turns


def _usage(answers: list[dict[str, Any]], entries: list[dict[str, Any]]) -> Usage:
    by_id = {str(entry["message"].get("id")): entry["message"].get("usage") for entry in answers}
    found = [usage for usage in by_id.values() if isinstance(usage, dict)]
    if not found:
        return Usage()
    totals = {
        kind: sum(usage[name] for usage in found if isinstance(usage.get(name), int))
        for kind, name in PLAIN_USAGE.items()
    }
    prices = [entry.get("totalCostUSD") for entry in entries if entry.get("type") == "cost-state"]
    price = prices[-1] if prices and isinstance(prices[-1], int | float) else None
    return Usage(**totals, cost_usd=price)
