"""How claude is started: argv, environment, the settings that come before all others, and the hooks of the gate."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from dispatcher.harness.base import BRIDGE_FILE, BRIDGE_VARIABLE, Command, RunRequest
from dispatcher.task import PromptKind, Tools

_READING = ("Read", "Glob", "Grep")
_EDITING = ("Bash", "Edit", "Write", *_READING)
_NETWORK = ("WebFetch", "WebSearch")
_TOOLS: Mapping[Tools, tuple[str, ...]] = {
    Tools.READ: _READING,
    Tools.EDIT: _EDITING,
    Tools.FULL: (*_EDITING, *_NETWORK),
}
# What runs without a question beside what the mode allows in the working folder. Reading and editing are left to the
# mode at `edit`, so that a path outside is refused to the model; a bare `Read` would open the whole disk.
_ALLOWED: Mapping[Tools, tuple[str, ...]] = {
    Tools.READ: (),
    Tools.EDIT: ("Bash",),
    Tools.FULL: (*_EDITING, *_NETWORK),
}
_SECRETS = ("**/.env", "**/.env.local", "**/.env.*.local", "**/.env.development", "**/.env.production", "**/.env.test")


def build(request: RunRequest) -> Command:
    """The prompt comes on stdin: as an argument it may be no longer than 128 KiB and must not begin with a dash."""
    argv = [*request.executable, "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--model", request.candidate.model]
    session = request.resume or request.new_session
    argv += ["--resume" if request.resume else "--session-id", session]
    argv += ["--strict-mcp-config"] if not request.trusted else []
    argv += ["--setting-sources", "user,project" if request.trusted else "user"]
    argv += ["--permission-mode", "default" if request.gate or request.tools is Tools.READ else "acceptEdits"]
    argv += ["--permission-prompts", "none"]
    argv += ["--settings", json.dumps(_settings(request))]
    if request.gate:  # once more, for the case that all of our settings are dropped; an administrator's win
        argv += ["--managed-settings", json.dumps({"permissions": {"ask": _asked(request)}})]
    argv += ["--tools", ",".join(_TOOLS[request.tools])]
    if _ALLOWED[request.tools] and not request.gate:  # with a gate only its hook opens anything
        argv += ["--allowedTools", ",".join(_ALLOWED[request.tools])]
    argv += ["--add-dir", request.tmp]
    if request.max_turns is not None:
        argv += ["--max-turns", str(request.max_turns)]
    files = {}
    if request.instructions:
        path = f"{request.folder}/instructions.md"
        files[path] = request.instructions
        argv += ["--append-system-prompt-file", path]
    stdin, held = request.prompt_file, False
    if request.gate and request.resume and request.kind is PromptKind.APPROVED:
        stdin = "/dev/null"  # without a prompt it goes on at the call that was deferred
    elif request.gate:
        stdin, held = f"{request.folder}/prompt.jsonl", True
        files[stdin] = _message(request.prompt)
        argv += ["--input-format", "stream-json"]
    return Command(tuple(argv), _environment(request), request.cwd, stdin, files, session, held)


def _environment(request: RunRequest) -> dict[str, str]:
    return {
        "CLAUDE_CODE_MAX_RETRIES": "2",  # the default of 10 waits three minutes, on a bad key too
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # else it lives on after its result
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",  # shared between all copies of a repository
        "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
        "CLAUDE_CODE_TMPDIR": request.tmp,
        "TMPDIR": request.tmp,
        BRIDGE_VARIABLE: f"{request.folder}/{BRIDGE_FILE}",
    }


def _message(prompt: str) -> str:
    """A prompt as a line of `--input-format stream-json`. In that form hooks of SessionStart run before it is read, in
    the plain form after (claude 2.1), so that it can wait until they have."""
    content = [{"type": "text", "text": prompt}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


def _settings(request: RunRequest) -> dict[str, object]:
    """One wrongly typed value in here would silently drop all of it (claude 2.1).

    Those of the user and of a trusted repository are read again whenever they change, and ours win: so hooks stay on.
    A rule that asks wins over one that allows, whoever wrote it, and over a hook that allows. Only the hook of
    PermissionRequest answers it, so that without our hooks nothing runs but what reads.
    """
    permissions: dict[str, object] = {}
    if request.tools is not Tools.FULL:
        permissions["deny"] = [f"{tool}({path})" for path in _SECRETS for tool in ("Read", "Edit")]
    if not request.gate:
        return {"permissions": permissions} if permissions else {}
    permissions["ask"] = _asked(request)
    return {"disableAllHooks": False, "hooks": _hooks(request), "permissions": permissions}


def _asked(request: RunRequest) -> list[str]:
    return [*(tool for tool in _TOOLS[request.tools] if tool not in _READING), "NotebookEdit", "mcp__*"]


def _hooks(request: RunRequest) -> dict[str, object]:
    """SessionStart reports that hooks run at all, PreToolUse asks about every call, PermissionRequest about what is
    about to run: another hook may have changed it. Timeouts are seconds."""

    def one(what: str) -> dict[str, object]:
        return {"type": "command", "command": shlex.join((*request.gate, what, request.folder)), "timeout": 60}

    return {
        "SessionStart": [{"hooks": [one("ready")]}],
        "PreToolUse": [{"matcher": "*", "hooks": [one("ask")]}],
        "PermissionRequest": [{"matcher": "*", "hooks": [one("confirm")]}],
    }
