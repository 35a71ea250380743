"""A whole world for one end-to-end test: a home, a repository, a model server, and the installed command line.

Nothing is mocked: `dispatcher` runs as its own process, the workers are the real CLIs (or the built-in scripted worker)
in an environment of their own, and what happened is read from the database, from git and from the server's log.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatcher.demo.model_server import ModelServer, Request, opencode_config
from tests.clis import Cli, need_cli

MODELS: dict[str, tuple[str, ...]] = {
    "opencode": ("m1", "m2", "m3"),
    "claude": ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5"),
}
NAMES = ("first", "second", "third")

PROGRAM = Path(sys.executable).parent / "dispatcher"


@dataclass
class World:
    root: Path
    harness: str
    server: ModelServer | None = None
    program: Path | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    extra_config: str = ""

    @property
    def home(self) -> Path:
        return self.root / "dispatcher"

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def user_home(self) -> Path:
        return self.root / "user"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.user_home),
            "DISPATCHER_HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SCRIPTED_KEY": "invented",
            "ANTHROPIC_API_KEY": "invented",
        }

    # --- making it ---

    def build(self) -> World:
        for folder in (self.home / "briefs", self.repo, self.user_home):
            folder.mkdir(parents=True)
        (self.user_home / ".gitconfig").write_text(
            "[user]\n\tname = A Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        self.git("init", "-q", "-b", "main")
        (self.repo / "AGENTS.md").write_text("Agents here use the word heliotrope.\n")
        (self.repo / "CLAUDE.md").write_text("Claude here uses the word vermilion.\n")
        (self.repo / "value.txt").write_text("1\n")
        (self.repo / "check.sh").write_text("#!/bin/sh\ngrep -qx 2 value.txt\n")
        (self.repo / "check.sh").chmod(0o755)
        self.git("add", ".")
        self.git("commit", "-qm", "start")
        if self.harness == "opencode" and self.server is not None:
            config = self.user_home / ".config/opencode/opencode.json"
            config.parent.mkdir(parents=True)
            config.write_text(json.dumps(opencode_config(self.server.url, MODELS["opencode"])))
        self.write_config()
        self.run("trust", check=True)
        return self

    def write_config(self) -> None:
        (self.home / "models.yaml").write_text(self.config_text())

    def config_text(self) -> str:
        credential = {
            "opencode": "{billing: free, base_url: '%s'}" % (self.server.url if self.server else ""),
            "claude": "{billing: metered, env: [ANTHROPIC_API_KEY], base_url: '%s'}"
            % (self.server.url if self.server else ""),
            "scripted": "{billing: free}",
        }[self.harness]
        models = [self.full_id(number) for number in range(3)]
        lines = [f"credentials:\n  test: {credential}", "candidates:"]
        lines += [
            f"  {name}: {{harness: {self.harness}, model: {model}, credential: test}}"
            for name, model in zip(NAMES, models, strict=True)
        ]
        lines.append("routes:")
        lines += [f"  {level}: [first, second, third]" for level in ("trivial", "easy", "medium", "hard")]
        limits = {"grace": "5s", "max_load_per_core": 1000, **self.limits}
        lines.append("limits: {" + ", ".join(f"{key}: {value}" for key, value in limits.items()) + "}")
        if self.program is not None:
            lines.append(f"harnesses: {{{self.harness}: {{path: '{self.program}'}}}}")
        return "\n".join(lines) + "\n" + self.extra_config

    def full_id(self, number: int) -> str:
        if self.harness == "opencode":
            return f"scripted/{MODELS['opencode'][number]}"
        if self.harness == "claude":
            return MODELS["claude"][number]
        return f"scripted/s{number + 1}"

    def script(self, number: int, steps: Iterable[Mapping[str, Any]]) -> None:
        """What the model of the candidate with this number says."""
        assert self.server is not None
        self.server.script(MODELS[self.harness][number], steps)

    def brief(self, name: str, body: str, **front: Any) -> Path:
        path = self.home / "briefs" / f"{name}.md"
        head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in {"repo": str(self.repo), **front}.items())
        path.write_text(f"---\n{head}---\n{body}\n")
        return path

    # --- using it ---

    def command(self, *words: str) -> list[str]:
        return [str(PROGRAM), *words]

    def run(self, *words: str, check: bool = False, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words),
            env=kwargs.pop("env", self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.root,
            timeout=240,
            check=False,
            **kwargs,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if check:
            assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start without waiting; the caller ends it."""
        with (self.root / "run.out").open("ab") as out:
            return subprocess.Popen(
                self.command(*words),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                start_new_session=True,
            )

    def add(self, path: Path) -> int:
        self.run("add", str(path), check=True)
        return int(self.rows("select max(id) as id from task")[0]["id"])

    def do(self, path: Path, *, expect_exit: int = 0) -> int:
        """Queue one brief and run it; gives the task's number."""
        task = self.add(path)
        done = self.run("run")
        assert done.returncode == expect_exit, (done.returncode, done.stdout, done.stderr, self.story(task))
        return task

    # --- looking at it ---

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.repo,
            env={**self.environment, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        connection = sqlite3.connect(self.home / "logs/dispatcher.db", timeout=10)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]
        finally:
            connection.close()

    def task(self, task: int) -> dict[str, Any]:
        return self.rows("select * from task where id = ?", task)[0]

    def attempts(self, task: int) -> list[dict[str, Any]]:
        return self.rows("select * from attempt where task_id = ? order by number", task)

    def story(self, task: int) -> str:
        """What a failed assertion needs to show."""
        rows = self.attempts(task)
        keys = ("number", "prompt", "candidate", "outcome", "outcome_reason", "verdict", "verdict_reason", "end_reason")
        return json.dumps([{key: row.get(key) for key in keys} for row in rows] + [self.task(task)], indent=1)

    def branch_log(self, task: int) -> list[str]:
        branch = self.task(task)["branch"]
        return self.git("log", "--format=%s", f"main..{branch}").splitlines() if branch else []

    def prompts(self, number: int) -> list[Request]:
        """Main calls of one candidate's model that the server saw."""
        assert self.server is not None
        model = MODELS[self.harness][number]
        return [request for request in self.server.requests if request.main and request.model == model]


def marked(needle: str) -> list[int]:
    """Pids of living processes whose environment or command line holds a text: an independent walk of /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if needle.encode() in text and state != "Z":
            found.append(int(entry.name))
    return found


def script(*rules: dict[str, Any]) -> str:
    """The body of a brief for the built-in worker."""
    return "Do what the script says.\n\n```script\n" + json.dumps(rules) + "\n```\n"


def supervisors(logs: Path) -> dict[int, Path]:
    """Living supervisors of a home, by pid, each with its attempt's folder: who holds the lock of one."""
    found: dict[int, Path] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if b"supervisor/__main__" in (entry / "cmdline").read_bytes():
                    held = [Path(os.readlink(link)) for link in (entry / "fd").iterdir()]
                    found |= {int(entry.name): one.parent for one in held if one.match(f"{logs}/*/*/attempt.lock")}
    return found


def fork_servers(logs: Path) -> list[int]:
    """The processes that forked them."""
    found = []
    for pid in supervisors(logs):
        with suppress(OSError):
            above = parent(pid)
            if b"--fork" in Path(f"/proc/{above}/cmdline").read_bytes():
                found.append(above)
    return sorted(set(found))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def until(true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for something that another process makes true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def gate(tmp: Path) -> tuple[Path, dict[str, str]]:
    """A step that says when it was reached and goes on when it is let."""
    reached, go = tmp / "reached", tmp / "go"
    os.mkfifo(go)
    return reached, {"shell": f"touch {reached}; read line < {go}"}


@contextmanager
def started(world: World) -> Iterator[subprocess.Popen[bytes]]:
    """A run in the background that does not outlive a failed test."""
    running = world.start("run")
    try:
        yield running
    except BaseException:
        print((world.root / "run.out").read_text())  # noqa: T201
        for pid in marked(str(world.root)):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        running.kill()
        running.wait()


def real_world(root: Path, cli: Cli, server: ModelServer) -> World:
    return World(root, cli, server, need_cli(cli)).build()


def scripted_world(root: Path, **kwargs: Any) -> World:
    return World(root, "scripted", **kwargs).build()
