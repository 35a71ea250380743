"""What is started: argv, variables and files, for both CLIs and all levels. The real CLIs run it in test_real_cli."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatcher.errors import BadInput
from dispatcher.harness import get, names
from dispatcher.harness.base import Command, RunRequest
from dispatcher.task import Billing, Candidate, Credential, PromptKind, Tools

CREDENTIAL = Credential("c", Billing.METERED, env=("SOME_API_KEY",))
SESSION = "0a2fa7ab-0ace-4a59-8c87-d96a1d592772"


def request(harness: str, **fields: Any) -> RunRequest:
    model = "claude-sonnet-5-5" if harness == "claude" else "openrouter/cohere/north:free"
    known = RunRequest(
        candidate=Candidate("c", harness, model, CREDENTIAL),
        executable=("/bin/" + harness,),
        prompt_file="/a/prompt.md",
        kind=PromptKind.FIRST,
        resume=None,
        new_session=SESSION,
        cwd="/copy",
        folder="/a",
        tools=Tools.EDIT,
        tmp="/tmp/t1",
    )
    return replace(known, **fields)


def command(harness: str, **fields: Any) -> Command:
    return get(harness).command(request(harness, **fields))


def after(argv: tuple[str, ...], option: str) -> str:
    assert argv.count(option) == 1
    return argv[argv.index(option) + 1]


def config(**fields: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(command("opencode", **fields).env["OPENCODE_CONFIG_CONTENT"])
    return value


def actions(rules: object) -> set[str]:
    return (
        {rules}
        if isinstance(rules, str)
        else {str(rule) for rule in rules.values()}
        if isinstance(rules, dict)
        else set()
    )


@pytest.mark.parametrize("harness", names())
@pytest.mark.parametrize("tools", list(Tools))
@pytest.mark.parametrize("resume", [None, SESSION])
def test_every_run_is_pinned_and_reads_its_prompt_from_a_file(harness: str, tools: Tools, resume: str | None) -> None:
    built = command(harness, tools=tools, resume=resume)
    assert built.argv[0] == "/bin/" + harness
    assert after(built.argv, "--model") == request(harness).candidate.model
    assert (built.stdin, built.cwd) == ("/a/prompt.md", "/copy")
    assert built.env["TMPDIR"] == "/tmp/t1"
    assert built.env["DISPATCHER_BRIDGE"] == "/a/bridge.jsonl"
    assert not any("KEY" in name or "TOKEN" in name for name in built.env)


@pytest.mark.parametrize("harness", names())
def test_instructions_of_the_repository_travel_in_a_file(harness: str) -> None:
    built = command(harness, instructions="be nice")
    assert command(harness, instructions="be nice", trusted=True).files == built.files
    assert built.files == {"/a/instructions.md": "be nice"}
    assert "/a/instructions.md" in json.dumps([*built.argv, *built.env.values()])
    assert command(harness).files == {}


def test_opencode() -> None:
    built = command("opencode")
    assert built.argv[1:] == (
        "run", "--model", "openrouter/cohere/north:free", "--format", "json", "--print-logs", "--log-level", "ERROR",
        "--agent", "build",
    )  # fmt: skip
    assert command("opencode", resume="ses_1").argv[-2:] == ("--session", "ses_1")
    assert built.session_id is None
    assert built.env["OPENCODE_DISABLE_AUTOUPDATE"] == "1"
    assert built.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in command("opencode", trusted=True).env


def test_opencode_is_told_not_to_share_to_update_or_to_snapshot() -> None:
    value = config()
    assert (value["share"], value["autoupdate"], value["snapshot"]) == ("disabled", False, False)
    assert value["small_model"] == value["model"] == "openrouter/cohere/north:free"
    plugin = value["plugin"][-1]
    assert plugin.startswith("file:///")
    assert Path(plugin.removeprefix("file://")).is_file()


@pytest.mark.parametrize("tools", list(Tools))
def test_no_rule_of_opencode_is_a_question_and_no_agent_has_others(tools: Tools) -> None:
    value = config(tools=tools)
    for rules in value["permission"].values():
        assert actions(rules) <= {"allow", "deny"}
    assert {"build", "general", "plan"} <= set(value["agent"])
    assert all(agent["permission"] == value["permission"] for agent in value["agent"].values())


def test_levels_of_opencode() -> None:
    read, edit, full = (config(tools=tools)["permission"] for tools in Tools)
    assert read["*"] == "deny"
    assert not {"edit", "bash", "task", "webfetch", "question"} & set(read)
    assert (edit["edit"], edit["bash"], edit["webfetch"]) == ("allow", "allow", "deny")
    assert (full["edit"], full["bash"], full["webfetch"]) == ("allow", "allow", "allow")
    assert edit["external_directory"]["*"] == "deny"
    assert edit["external_directory"]["/tmp/t1/*"] == "allow"
    assert (edit["read"]["*.env"], edit["read"]["*.env.example"]) == ("deny", "allow")
    assert full["external_directory"] == "allow"


def test_claude() -> None:
    built = command("claude", max_turns=40)
    argv = built.argv
    assert argv[1:5] == ("-p", "--output-format", "stream-json", "--verbose")
    assert after(argv, "--session-id") == SESSION == built.session_id
    assert after(argv, "--setting-sources") == "user"
    assert "--strict-mcp-config" in argv
    assert after(argv, "--permission-prompts") == "none"
    assert after(argv, "--permission-mode") == "acceptEdits"
    assert after(argv, "--max-turns") == "40"
    assert built.env["CLAUDE_CODE_MAX_RETRIES"] == "2"
    for name in (
        "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    ):  # fmt: skip
        assert built.env[name] == "1"
    assert built.env["CLAUDE_CODE_TMPDIR"] == "/tmp/t1"


@pytest.mark.parametrize("tools", [Tools.EDIT, Tools.FULL])
def test_claude_with_a_gate_opens_nothing_by_itself(tools: Tools) -> None:
    built = command("claude", gate=("/bin/gate",), tools=tools, prompt='Say "so".\n')
    assert after(built.argv, "--permission-mode") == "default"
    assert "--allowedTools" not in built.argv
    settings = json.loads(after(built.argv, "--settings"))
    assert settings["disableAllHooks"] is False
    asked = settings["permissions"]["ask"]
    offered = set(after(built.argv, "--tools").split(","))
    assert offered - {"Read", "Glob", "Grep"} | {"mcp__*"} <= set(asked)
    assert json.loads(after(built.argv, "--managed-settings")) == {"permissions": {"ask": asked}}
    for event, what in (("SessionStart", "ready"), ("PreToolUse", "ask"), ("PermissionRequest", "confirm")):
        ((hook,),) = (entry["hooks"] for entry in settings["hooks"][event])
        assert hook == {"type": "command", "command": f"/bin/gate {what} /a", "timeout": 60}


def test_claude_with_a_gate_gets_its_prompt_later() -> None:
    """As a message, so that it can wait for the hooks; a call that was deferred needs none."""
    built = command("claude", gate=("/bin/gate",), prompt='Say "so".\n')
    assert after(built.argv, "--input-format") == "stream-json"
    assert built.held
    (line,) = built.files[built.stdin].splitlines()
    assert json.loads(line)["message"]["content"] == [{"type": "text", "text": 'Say "so".\n'}]
    goes_on = command("claude", gate=("/bin/gate",), resume="old", kind=PromptKind.APPROVED)
    assert (goes_on.stdin, goes_on.held) == ("/dev/null", False)
    assert "--input-format" not in goes_on.argv
    plain = command("claude")
    assert (plain.stdin, plain.held) == ("/a/prompt.md", False)


def test_claude_resumes_by_id() -> None:
    argv = command("claude", resume="old").argv
    assert after(argv, "--resume") == "old"
    assert "--session-id" not in argv


def test_levels_of_claude() -> None:
    read, edit, full = (command("claude", tools=tools).argv for tools in Tools)
    assert after(read, "--tools") == "Read,Glob,Grep"
    assert "--allowedTools" not in read
    assert after(edit, "--tools") == "Bash,Edit,Write,Read,Glob,Grep"
    assert after(edit, "--allowedTools") == "Bash"
    assert "WebFetch" in after(full, "--tools")
    assert "WebFetch" in after(full, "--allowedTools")
    for argv in (read, edit, full):
        assert not {"--dangerously-skip-permissions", "bypassPermissions"} & set(argv)
    assert "Read(**/.env)" in json.loads(after(edit, "--settings"))["permissions"]["deny"]


@pytest.mark.parametrize(
    ("harness", "text", "fine"),
    [
        ("opencode", "1.18.33", True),
        ("opencode", "2.0.0", False),
        ("claude", "2.1.332 (Claude Code)", True),
        ("claude", "1.0.88 (Claude Code)", False),
        ("claude", "", False),
        ("scripted", "whatever", True),
    ],
)
def test_versions(harness: str, text: str, fine: bool) -> None:
    assert get(harness).version_ok(text) is fine


def test_an_unknown_harness_names_the_known_ones() -> None:
    with pytest.raises(BadInput) as caught:
        get("cursor")
    assert "opencode" in (caught.value.hint or "")


def test_opencode_with_a_gate_runs_an_agent_that_no_repository_can_name() -> None:
    """Rules of equal names are merged, so a name that is known could get rules behind our "deny"."""
    built = command("opencode", gate=("/bin/gate",))
    name = after(built.argv, "--agent")
    assert name not in config()["agent"]
    value = json.loads(built.env["OPENCODE_CONFIG_CONTENT"])
    assert value["permission"] == {"*": "deny"}
    assert value["agent"][name] == {"mode": "primary", "permission": {"*": "deny"}}
    assert all(agent["permission"] == {"*": "deny"} for agent in value["agent"].values())
