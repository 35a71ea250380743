"""How opencode is started: argv, environment, and a configuration over all others that leaves no rule a question."""

from __future__ import annotations

import json

from dispatcher.harness.base import BRIDGE_FILE, BRIDGE_VARIABLE, Command, RunRequest
from dispatcher.task import Tools

PLUGIN = f"{__file__.rsplit('/', 2)[0]}/bridge/opencode.js"
_AGENTS = ("build", "general", "explore", "plan")


def build(request: RunRequest) -> Command:
    """The prompt arrives on stdin byte for byte; an argument would be quoted and its dashes read as options."""
    argv = [*request.executable, "run", "--model", request.candidate.model, "--format", "json"]
    argv += ["--print-logs", "--log-level", "ERROR"]
    argv += ["--agent", _agent(request)]  # a default agent of the user's may ask
    if request.resume:
        argv += ["--session", request.resume]
    files = {}
    if request.instructions:
        files[_instructions_file(request)] = request.instructions
    return Command(tuple(argv), _environment(request), request.cwd, request.prompt_file, files)


def _instructions_file(request: RunRequest) -> str:
    return f"{request.folder}/instructions.md"


def _agent(request: RunRequest) -> str:
    """With a gate, one whose name no repository knows: opencode 1.18 merges the rules of equal names key by key and the
    last that fits wins, so `{"*": allow, bash: allow}` of a repository's `build` would keep bash behind our deny."""
    return f"gated-{request.new_session}" if request.gate else "build"


def _environment(request: RunRequest) -> dict[str, str]:
    environment = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(_config(request), ensure_ascii=False),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
        BRIDGE_VARIABLE: f"{request.folder}/{BRIDGE_FILE}",
        "TMPDIR": request.tmp,
    }
    if request.gate:
        environment["DISPATCHER_GATE"] = request.folder
        environment["DISPATCHER_PERMISSIONS"] = json.dumps(permissions(request.tools, request.cwd, request.tmp))
    if not request.trusted:
        environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    return environment


def _config(request: RunRequest) -> dict[str, object]:
    """Merged by opencode over every other configuration. Agents repeat the rules, because theirs win.

    With a gate all is denied here, and only our plugin opens it: a plugin that is missing or fails opens nothing.
    """
    from urllib.parse import quote  # a megabyte that supervisors, who only watch, do not need

    rules = {"*": "deny"} if request.gate else permissions(request.tools, request.cwd, request.tmp)
    agents: dict[str, object] = {name: {"permission": rules} for name in _AGENTS}
    if request.gate:
        agents[_agent(request)] = {"mode": "primary", "permission": rules}
    config: dict[str, object] = {
        "model": request.candidate.model,
        "small_model": request.candidate.model,  # side calls (the title) must not spend another model
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
        "permission": rules,
        "agent": agents,
        "plugin": [f"file://{quote(PLUGIN)}"],
    }
    if request.instructions:
        config["instructions"] = [_instructions_file(request)]
    return config


def permissions(tools: Tools, cwd: str, tmp: str) -> dict[str, object]:
    """opencode's rules for a level; the last one that fits wins, and `deny` as the only rule withholds the tool."""
    full = tools is Tools.FULL
    network = "allow" if full else "deny"
    kept_output = "*/opencode/tool-output/*"  # where opencode puts the rest of a long output, and says so to the model
    inside = {"*": "deny", kept_output: "allow"} | {
        path: "allow" for root in (cwd, tmp) for path in (root, f"{root}/*")
    }
    secrets = {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"}
    rules: dict[str, object] = {
        "*": "allow",
        "read": "allow" if full else secrets,
        "edit": "allow",
        "bash": "allow",
        "webfetch": network,
        "websearch": network,
        "codesearch": network,
        "external_directory": "allow" if full else inside,
        "doom_loop": "allow",  # our own runaway detector ends it with a reason
        "question": "deny",
        "plan_enter": "deny",
        "plan_exit": "deny",
    }
    if tools is Tools.READ:  # also what the user's MCP servers offer may write
        named = dict.fromkeys(("glob", "grep", "list", "todowrite", "todoread", "skill"), "allow")
        rules = {"*": "deny", "read": secrets, **named, "external_directory": inside}
    return rules
