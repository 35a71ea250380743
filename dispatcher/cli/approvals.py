"""What waits for a person, and the person's answer."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import approving, host, policy
from dispatcher.cli import home, idle
from dispatcher.cli.render import Column, clean, clean_block, form, json_out, out, table
from dispatcher.cli.wording import clock, duration
from dispatcher.errors import BadInput
from dispatcher.store import approvals, history, queue
from dispatcher.task import Tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.store.approvals import Approval

_SCOPES = {"task": "task", "repo": "repository", "repository": "repository"}
_TAKES = {  # words of each action
    "list": ("--watch", "--json"),
    "test": ("WHAT", "--tool", "--json"),
    "grants": ("--json",),
    "revoke": ("WHAT",),
}
TOOL = "bash"  # whose input is tested when nothing else is said
_POLL = 1.0  # seconds

COLUMNS = (
    Column("id", "id", right=True),
    Column("status", "status"),
    Column("task", "task", right=True),
    Column("tool", "tool"),
    Column("waited", "waited", duration, right=True),
    Column("rule", "rule"),
    Column("answered_by", "by"),
    Column("what", "what", wide=True),
)
GRANTS = (
    Column("id", "id", right=True),
    Column("scope", "for"),
    Column("scope_key", "which", wide=True),
    Column("tool", "tool"),
    Column("approval_id", "from", right=True),
    Column("by", "by"),
    Column("created_at", "since", clock),
    Column("what", "what", wide=True),
)


def run_action(action: str, what: str, explicit: Path | None, *, tool: str, watch: bool, as_json: bool) -> None:
    _refuse_idle(action, {"WHAT": bool(what), "--tool": tool != TOOL, "--watch": watch, "--json": as_json})
    match action:
        case "list":
            _list(explicit, watch=watch, as_json=as_json)
        case "test":
            _test(explicit, what, tool, as_json=as_json)
        case "grants":
            _grants(explicit, as_json=as_json)
        case "revoke":
            _revoke(explicit, what)
        case _:
            raise BadInput(f"approvals does not know {action!r}", hint="list, test COMMAND, grants, revoke GRANT")


def _refuse_idle(action: str, words: Mapping[str, bool]) -> None:
    if action in _TAKES:
        idle_words = {word: written for word, written in words.items() if word not in _TAKES[action]}
        idle.refuse(f"with approvals {action}", idle_words, "dispatcher approvals --help")


# --- looking ------------------------------------------------------------------------------------------------------


def _list(explicit: Path | None, *, watch: bool, as_json: bool) -> None:
    config = home.configured(explicit)
    with home.existing(explicit) as store:
        shown: object = None
        while True:
            now = time.time()
            approving.collect_all(store, config, now)
            rows = [_row(one, now) for one in (*approvals.past(store), *approvals.pending(store))]
            key = [(row["id"], row["status"]) for row in rows]
            if key != shown:
                shown = key
                _print(store, rows, now, as_json=as_json)
            if not watch:
                return
            sys.stdout.flush()
            time.sleep(_POLL)


def _print(store: Store, rows: list[dict[str, Any]], now: float, *, as_json: bool) -> None:
    today = approvals.approved_since(store, now - now % 86400)
    if as_json:
        return json_out({"approved_today": today, "approvals": rows})
    table(rows, COLUMNS, empty="no call ever waited")
    waiting = sum(row["status"] == "pending" for row in rows)
    out(f"{waiting} waiting, {today} approved today")
    return None


def _row(found: Approval, now: float) -> dict[str, Any]:
    waited = (found.answered_at or now) - found.asked_at
    given = json.loads(found.input)
    what = given.get("command") if isinstance(given.get("command"), str) else found.input
    return {**vars(found), "task": found.task_id, "input": given, "waited": waited, "what": what}


def _test(explicit: Path | None, what: str, tool: str, *, as_json: bool) -> None:
    """The rules of models.yaml; a brief's own come on top of them when its task runs."""
    if not what:
        raise BadInput("test what?", hint='dispatcher approvals test "git push"')
    config = home.configured(explicit)
    given: dict[str, Any] = {"command": what}
    if policy.kind_of(tool) != "shell":
        try:
            given = json.loads(what)
        except ValueError:
            raise BadInput(f"the input of {tool} must be JSON", hint='for example {"flag": "beta"}') from None
    call = policy.Call(tool, given, os.getcwd())
    found = policy.decide(call, approving.rules(config, None, Tools.EDIT))
    if as_json:
        return json_out({"do": found.do, "rule": found.rule.name, "source": found.rule.source, "reason": found.reason})
    out(f"{found.do}: {clean(found.reason)}")
    return None


def _grants(explicit: Path | None, *, as_json: bool) -> None:
    with home.existing(explicit) as store:
        rows = []
        for grant in approvals.grants(store):
            what = approvals.get(store, grant.approval_id).input if grant.approval_id is not None else ""
            rows.append({**vars(grant), "what": what})
        table(rows, GRANTS, form=form(as_json=as_json), empty="nothing was granted")


def _revoke(explicit: Path | None, what: str) -> None:
    approving.refuse_inside_a_worker(os.environ)
    if not what.isdigit():
        raise BadInput("revoke which grant?", hint="dispatcher approvals grants")
    with home.existing(explicit) as store:
        grant = approvals.revoke(store, int(what), account(), time.time())
        out(f"grant {grant.id} is taken back; a worker that runs now keeps it until it ends")


# --- answering ----------------------------------------------------------------------------------------------------


def approve_call(number: int, explicit: Path | None, *, remember: str | None, yes: bool) -> None:
    approving.refuse_inside_a_worker(os.environ)
    config = home.configured(explicit)
    with home.existing(explicit) as store:
        approving.collect_all(store, config, time.time())
        found = _answerable(store, config, number)
        scope = _scope(store, found, remember)
        _confirm(store, found, scope, "approve this call", yes=yes)
        approving.tell(store, found, time.time(), approve=True, by=account(), where=place(), remember=scope)
        out(f"approval {number}: approved" + (f", and the same call of {scope[0]} {clean(scope[1])}" if scope else ""))
        _what_now(store, found)


def deny_call(number: int, explicit: Path | None, *, reason: str, yes: bool) -> None:
    approving.refuse_inside_a_worker(os.environ)
    config = home.configured(explicit)
    with home.existing(explicit) as store:
        approving.collect_all(store, config, time.time())
        found = _answerable(store, config, number)
        _confirm(store, found, None, "deny this call", yes=yes)
        approving.tell(store, found, time.time(), approve=False, by=account(), where=place(), reason=reason)
        out(f"approval {number}: denied")
        _what_now(store, found)


def _answerable(store: Store, config: Config, number: int) -> Approval:
    found = approvals.get(store, number)
    approving.refuse_others(config, account(), found.rule)
    return found


def _scope(store: Store, found: Approval, remember: str | None) -> tuple[str, str] | None:
    if remember is None:
        return None
    if remember not in _SCOPES:
        raise BadInput(f"--remember {remember!r}", hint="--remember task, or --remember repo")
    if found.remember == approvals.NEVER:
        raise BadInput(f"the rule {found.rule!r} is asked every time (remember: never)", hint="leave out --remember")
    if _SCOPES[remember] == "task":
        return "task", str(found.task_id)
    repository = queue.get(store, found.task_id).repository
    if repository is None:
        raise BadInput(f"task {found.task_id} has no repository", hint="--remember task")
    return "repository", repository


def _confirm(store: Store, found: Approval, scope: tuple[str, str] | None, question: str, *, yes: bool) -> None:
    attempt, task = history.get_attempt(store, found.attempt_id), queue.get(store, found.task_id)
    out(f"approval {found.id}, task {task.id}: {clean(task.title)}")
    worker = f"{attempt.candidate} ({attempt.harness}, {attempt.model}), attempt {attempt.number}"
    out(f"  asked by   {clean(worker)}")
    out(f"  waits for  {duration(time.time() - found.asked_at)}; rule {clean(found.rule)}")
    out(f"  tool       {clean(found.tool)}")
    out(f"  folder     {clean(found.folder)}")
    for key, value in json.loads(found.input).items():
        text = value if isinstance(value, str) else json.dumps(value)
        out(f"  {clean(key)}: {clean_block(text)}" if "\n" not in text else f"  {clean(key)}:\n{clean_block(text)}")
    if scope is not None:
        out(f"  remember   exactly this call, for {scope[0]} {clean(scope[1])}, until it is taken back")
    if yes or not sys.stdin.isatty():
        return
    sys.stdout.write(f"{question}? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput("nothing was answered")


def _what_now(store: Store, found: Approval) -> None:
    task = queue.get(store, found.task_id)
    if task.status == "queued":
        out(f"task {task.id} goes on with the next: dispatcher run")
    elif task.status == "running":
        out(f"task {task.id} is running; its worker is told")


def account() -> str:
    """The OS account; variables such as LOGNAME could say anything."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def place() -> str:
    """The terminal and the host of the answer."""
    try:
        terminal = os.ttyname(0)
    except OSError:
        terminal = "no terminal"
    remote = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    return f"{terminal} on {host.name()}" + (f", from {remote}" if remote else "")
