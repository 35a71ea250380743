"""The real opencode and the real claude, unmodified, against the scripted server: what the fakes stand for is true."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer, claude_environment, opencode_environment
from tests.clis import need_cli

pytestmark = pytest.mark.real_cli

PROMPT = "Prompt: first\n\nGreet the world.\n"
RULE = "Always greet in lower case."

CLAUDE_OPTIONS = [
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-mode",
    "acceptEdits",
    "--permission-prompts",
    "none",
    "--tools",
    "Bash,Edit,Write,Read",
    "--allowedTools",
    "Bash(git:*)",
]
OPENCODE_OPTIONS = ["run", "--format", "json", "--print-logs", "--log-level", "ERROR"]


@dataclass(frozen=True)
class Ended:
    code: int
    events: list[dict[str, Any]]
    stderr: str


@dataclass(frozen=True)
class Desk:
    """A server, and a home and a repository with an AGENTS.md and one file."""

    server: ModelServer
    home: Path
    repository: Path

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.repository), *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def run(self, command: list[str], prompt: str, variables: dict[str, str]) -> Ended:
        done = subprocess.run(
            command,
            input=prompt,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.repository,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **variables},
            check=False,
        )
        return Ended(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)

    def opencode(self, prompt: str = PROMPT, *options: str) -> Ended:
        command = [str(need_cli("opencode")), *OPENCODE_OPTIONS, "--model", "scripted/m1", *options]
        return self.run(command, prompt, opencode_environment(self.server.url, ["m1"]))

    def claude(self, prompt: str = PROMPT, *options: str) -> Ended:
        command = [str(need_cli("claude")), *CLAUDE_OPTIONS, "--model", "m1", *options]
        limits = {"CLAUDE_CODE_MAX_RETRIES": "0", "CLAUDE_CODE_TMPDIR": str(self.home)}
        return self.run(command, prompt, {**claude_environment(self.server.url), **limits})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    home, repository = tmp_path / "home", tmp_path / "repository"
    home.mkdir()
    repository.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Worker\nemail = worker@example.org\n")
    (repository / "hello.txt").write_text("Hello\n")
    (repository / "AGENTS.md").write_text(RULE + "\n")
    with ModelServer() as server:
        made = Desk(server, home, repository)
        made.git("init", "-q")
        made.git("add", "hello.txt", "AGENTS.md")
        made.git("commit", "-q", "-m", "start")
        yield made


Run = Callable[[Desk], Ended]
BOTH = pytest.mark.parametrize("run", [Desk.opencode, Desk.claude])


@BOTH
def test_edits_writes_and_commits(desk: Desk, run: Run) -> None:
    desk.server.script(
        "m1",
        [
            {"text": "Reading first.", "read": {"path": "hello.txt"}},
            {
                "edit": {"path": "hello.txt", "old": "Hello", "new": "hello"},
                "write": {"path": "world.txt", "content": "world\n"},
            },
            {"shell": "git add hello.txt world.txt && git commit -q -m 'greet the world'"},
            {"text": "Greeted."},
        ],
    )
    ended = run(desk)
    assert ended.code == 0
    assert desk.git("log", "-1", "--format=%s", "--name-only") == "greet the world\n\nhello.txt\nworld.txt\n"
    assert (desk.repository / "hello.txt").read_text() == "hello\n"
    assert desk.git("status", "--porcelain") == ""
    assert len(desk.server.wait_for(4)) == 4


@BOTH
def test_the_server_sees_prompt_rules_and_tools(desk: Desk, run: Run) -> None:
    desk.server.script("m1", [{"text": "Nothing to do."}])
    assert run(desk).code == 0
    [request] = desk.server.wait_for(1)
    assert request.prompt == PROMPT
    assert RULE in request.text
    assert {"bash", "edit", "read", "write"} <= {tool.lower() for tool in request.tools}
    assert request.session


def test_opencode_reports_a_refused_key(desk: Desk) -> None:
    desk.server.script("m1", [{"error": {"status": 401, "message": "Invalid key"}, "repeat": True}])
    ended = desk.opencode()
    assert ended.code == 1
    assert [event["error"]["data"]["statusCode"] for event in ended.events] == [401]


def test_opencode_waits_silently_for_a_rate_limit_that_names_a_time(desk: Desk) -> None:
    """It says nothing on stdout until the time has come; the retry then succeeds."""
    desk.server.script(
        "m1",
        [
            {"error": {"status": 429, "message": "free-models-per-day", "headers": {"retry-after": "2"}}},
            {"text": "Done."},
        ],
    )
    ended = desk.opencode()
    refused, again = desk.server.wait_for(2)
    assert ended.code == 0
    assert again.monotonic - refused.monotonic >= 2
    assert ended.events[0]["timestamp"] / 1000 >= again.wall
    assert "AI_APICallError: free-models-per-day" in ended.stderr


def test_claude_ends_on_a_rate_limit_with_a_far_reset(desk: Desk) -> None:
    desk.server.script("m1", [{"error": {"status": 429, "message": "busy", "headers": {"retry-after": "3600"}}}])
    ended = desk.claude()
    result = ended.events[-1]
    assert ended.code == 1
    assert (result["type"], result["is_error"], result["api_error_status"]) == ("result", True, 429)
    assert "busy" in result["result"]


def test_opencode_resumes_a_session_and_a_finish_prompt_gets_its_own_answer(desk: Desk) -> None:
    desk.server.script("m1", [{"text": "First."}, {"text": "Finished.", "when": "Prompt: finish"}])
    first = desk.opencode()
    second = desk.opencode("Prompt: finish\n\nCommit it.\n", "--session", first.events[0]["sessionID"])
    assert [event["part"]["text"] for event in second.events if event["type"] == "text"] == ["Finished."]
    assert "Greet the world." in desk.server.requests[-1].text


def test_claude_resumes_a_session_and_a_finish_prompt_gets_its_own_answer(desk: Desk) -> None:
    desk.server.script("m1", [{"text": "First."}, {"text": "Finished.", "when": "Prompt: finish"}])
    first = desk.claude()
    second = desk.claude("Prompt: finish\n\nCommit it.\n", "--resume", first.events[0]["session_id"])
    assert second.events[-1]["result"] == "Finished."
    assert "Greet the world." in desk.server.requests[-1].text
