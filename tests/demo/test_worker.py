"""The scripted worker from outside: argv, stdin, stdout, stderr, exit code, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).parents[2] / "dispatcher" / "demo" / "worker.py"
MODEL = "demo/free-small"
TOOL_CALL = ["step_start", "tool_use", "step_finish"]


@dataclass(frozen=True)
class Ended:
    code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def session(self) -> str:
        [session] = {event["sessionID"] for event in self.events}
        return str(session)

    def parts(self, kind: str) -> list[dict[str, Any]]:
        return [event["part"] for event in self.events if event["type"] == kind]


@dataclass(frozen=True)
class Desk:
    """A home and a repository for workers to run in."""

    home: Path
    repository: Path

    @property
    def environment(self) -> dict[str, str]:
        person = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **person}

    @contextmanager
    def started(self, prompt: str, *options: str, model: str = MODEL) -> Iterator[subprocess.Popen[bytes]]:
        """A worker with its prompt given and its stdin closed; it is dead when the block ends."""
        fixed = ["--model", model, "--format", "json", "--print-logs", "--log-level", "ERROR"]
        with subprocess.Popen(
            [sys.executable, str(WORKER), "run", *fixed, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.repository,
            env=self.environment,
        ) as process:
            try:
                assert process.stdin is not None
                process.stdin.write(prompt.encode())
                process.stdin.close()
                process.stdin = None
                yield process
            finally:
                process.kill()

    def run(self, prompt: str, *options: str, model: str = MODEL) -> Ended:
        with self.started(prompt, *options, model=model) as process:
            stdout, stderr = process.communicate(timeout=30)
        return Ended(process.returncode, [json.loads(line) for line in stdout.splitlines()], stderr.decode())

    def play(self, *steps: dict[str, Any], prompt: str = "Prompt: first\n") -> Ended:
        return self.run(scripted([{"steps": list(steps)}], prompt))

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.repository), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment).stdout


def scripted(rules: list[dict[str, Any]], prompt: str = "Prompt: first\n") -> str:
    return f"{prompt}\nBuild it.\n\n```script\n{json.dumps(rules)}\n```\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path / "home", tmp_path / "repository")
    made.home.mkdir()
    made.repository.mkdir()
    made.git("init", "-q")
    return made


def test_no_steps_is_the_smallest_successful_run(desk: Desk) -> None:
    ended = desk.play()
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.kinds == ["step_start", "step_finish"]
    assert ended.parts("step_finish")[0]["reason"] == "stop"


def test_it_writes_runs_commands_and_commits_for_real(desk: Desk) -> None:
    ended = desk.play(
        {"text": "Working."},
        {"write": {"path": "sub/a.txt", "content": "one\n"}},
        {"append": {"path": "sub/a.txt", "content": "two\n"}},
        {"shell": "wc -l < sub/a.txt; exit 3"},
        {"commit": "add a"},
        {"todo": ["write tests", {"content": "write a", "status": "completed"}]},
    )
    assert ended.code == 0
    assert [part["tool"] for part in ended.parts("tool_use")] == ["write", "write", "bash", "bash", "todowrite"]
    assert ended.parts("tool_use")[2]["state"]["metadata"] == {"output": "2\n", "exit": 3, "truncated": False}
    assert [part["reason"] for part in ended.parts("step_finish")] == ["tool-calls"] * 5 + ["stop"]
    assert desk.git("log", "--format=%s", "--name-only").split("\n")[:3] == ["add a", "", "sub/a.txt"]
    assert desk.git("status", "--porcelain") == ""


def test_the_first_rule_that_fits_plays(desk: Desk) -> None:
    """The block names every prompt it has rules for; only the text outside it may decide."""
    rules: list[dict[str, Any]] = [
        {"prompt": "Prompt: finish", "steps": [{"exit": 3}]},
        {"model": "demo/strong*", "steps": [{"exit": 4}]},
        {"times": 1, "steps": [{"exit": 5}]},
        {"steps": [{"exit": 6}]},
    ]
    runs = [
        desk.run(scripted(rules, "Prompt: finish\n")),
        desk.run(scripted(rules), model="demo/strong"),
        desk.run(scripted(rules)),
        desk.run(scripted(rules)),
    ]
    assert [run.code for run in runs] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [("Prompt: first\nJust prose.\n", "no script in it"), (scripted([{"prompt": "never", "steps": []}]), "no rule")],
)
def test_nothing_to_play_says_so_and_does_nothing(desk: Desk, prompt: str, words: str) -> None:
    ended = desk.run(prompt)
    assert ended.code == 0
    assert words in ended.parts("text")[0]["text"]


@pytest.mark.parametrize(
    "prompt",
    [
        "```script\n[{]\n```\n",
        "```script\n{}\n```\n",
        scripted([{"step": []}]),
        scripted([{"steps": [{"fly": 1}]}]),
        scripted([{"steps": [{"write": {"path": "a"}}]}]),
    ],
)
def test_a_wrong_script_is_an_error_of_the_run(desk: Desk, prompt: str) -> None:
    ended = desk.run(prompt)
    assert ended.code == 1
    assert ended.events[-1]["error"]["name"] == "UnknownError"


def test_an_error_looks_like_opencodes(desk: Desk) -> None:
    ended = desk.play({"error": {"status": 429, "message": "free-models-per-day", "retry_after": 60}})
    [event] = ended.events
    data = event["error"]["data"]
    assert ended.code == 1
    assert (event["type"], event["error"]["name"], data["statusCode"], data["isRetryable"]) == (
        "error",
        "APIError",
        429,
        True,
    )
    assert data["responseHeaders"]["retry-after"] == "60"
    assert "level=ERROR" in ended.stderr
    assert 'error.error="AI_APICallError: free-models-per-day"' in ended.stderr


def test_an_error_without_a_status_has_a_name_only(desk: Desk) -> None:
    ended = desk.play({"error": {"name": "ContextOverflowError", "message": "too long"}})
    assert ended.events[-1]["error"] == {"name": "ContextOverflowError", "data": {"message": "too long"}}


def test_a_session_is_resumed_by_its_id_and_an_unknown_one_refused(desk: Desk) -> None:
    first = desk.play({"text": "half"})
    second = desk.run(scripted([{"steps": []}]), "--session", first.session)
    unknown = desk.run(scripted([{"steps": []}]), "--session", "ses_unknown")
    assert (second.code, second.session) == (0, first.session)
    assert (unknown.code, unknown.events) == (1, [])
    assert "Session not found" in unknown.stderr


def test_an_empty_prompt_is_refused(desk: Desk) -> None:
    ended = desk.run("")
    assert ended.code == 1
    assert "You must provide a message or a command" in ended.stderr


@pytest.mark.parametrize(
    ("steps", "code", "kinds"),
    [
        ([{"text": "a"}, {"no_finish": True}], 0, ["step_start", "text"]),
        ([{"exit": 7}], 7, []),
        ([{"signal_self": "KILL"}], -signal.SIGKILL, []),
        ([{"step": 2}], 0, ["step_start", "step_finish"] * 3),
        ([{"long_line": 200_000}], 0, ["step_start", "text", "step_finish"]),
        ([{"big_output": 130_000}], 0, ["step_start", "text", "text", "text", "step_finish"]),
        ([{"tool_error": {"tool": "edit", "error": "no"}}], 0, [*TOOL_CALL, "step_start", "step_finish"]),
        ([{"denied": "git push"}, {"text": "never"}], 0, TOOL_CALL),
    ],
)
def test_endings_and_oddities(desk: Desk, steps: list[dict[str, Any]], code: int, kinds: list[str]) -> None:
    ended = desk.play(*steps)
    assert (ended.code, ended.kinds) == (code, kinds)


def test_bytes_that_are_not_text_reach_stdout(desk: Desk) -> None:
    with desk.started(scripted([{"steps": [{"bad_bytes": True}, {"stderr": "raw"}]}])) as process:
        stdout, stderr = process.communicate(timeout=30)
    assert b"\xff\xfe" in stdout
    assert stderr == b"raw"


def test_a_silent_rate_limit_shows_on_stderr_only(desk: Desk) -> None:
    with desk.started(scripted([{"steps": [{"ratelimit_silent": True}]}])) as process:
        assert process.stderr is not None
        assert b"Rate limit exceeded: free-models-per-day" in process.stderr.readline()
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_it_can_ignore_term(desk: Desk) -> None:
    """SIGINT is always ignored, as by opencode; the shell step shows that the signals were sent to a live worker."""
    steps: list[dict[str, Any]] = [
        {"ignore_term": True},
        {"shell": "kill -TERM $PPID; kill -INT $PPID"},
        {"text": "alive"},
    ]
    ended = desk.play(*steps)
    assert (ended.code, ended.parts("text")[0]["text"]) == (0, "alive")


def test_a_daemon_survives_the_run(desk: Desk) -> None:
    """It keeps stdout open too, as a real one would, so the worker is waited for and not its output."""
    steps = [{"daemon": {"seconds": 600, "pid_file": "daemon.pid"}}]
    with desk.started(scripted([{"steps": steps}])) as process:
        code = process.wait(30)
    daemon = int((desk.repository / "daemon.pid").read_text())
    try:
        assert code == 0
        assert os.getsid(daemon) != os.getsid(0)
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_it_names_a_version_and_models() -> None:
    version, models = (
        subprocess.run([sys.executable, str(WORKER), word], capture_output=True, text=True, check=True).stdout
        for word in ("--version", "models")
    )
    assert version == "1.18.33\n"
    assert MODEL in models.splitlines()
