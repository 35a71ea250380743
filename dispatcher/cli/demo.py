"""`demo`: three briefs, run for real in a folder of their own, without an account, a network or the user's settings.

Everything lies below one new folder, also what the CLIs keep in a home: their configuration, sessions and caches. The
run itself is `dispatcher run`, in a process of its own with that environment.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.cli import home
from dispatcher.cli.render import Column, note, out, table
from dispatcher.cli.wording import duration
from dispatcher.demo import scenes
from dispatcher.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WORKERS = ("auto", "opencode", "claude", "both", "scripted")

_MODEL_IDS = {"opencode": "scripted/{}", "claude": "claude-{}-1", "scripted": "scripted/{}"}
_INVENTED_KEY = "an-invented-key"

_COLUMNS = [
    Column("task", "task", right=True),
    Column("attempt", "try", right=True),
    Column("harness", "worker", least=90),
    Column("candidate", "candidate"),
    Column("prompt", "prompt", least=100),
    Column("outcome", "outcome"),
    Column("verdict", "then", least=110),
    Column("seconds", "took", duration, right=True, least=120),
    Column("status", "task is"),
    Column("title", "title", wide=True),
]


@dataclass(frozen=True)
class Stage:
    """Where the demo plays: all folders are below `root`."""

    root: Path
    harnesses: tuple[str, ...]

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def repository(self) -> Path:
        return self.root / "repository"

    @property
    def user(self) -> Path:
        """What the workers take for the person's home folder."""
        return self.root / "user"

    @property
    def scripted(self) -> bool:
        return self.harnesses == ("scripted",)


def run_demo(folder: Path | None, worker: str) -> int:
    stage = Stage(_fresh(folder), _choose(worker))
    for made in (stage.home, stage.repository, stage.user):
        made.mkdir(parents=True)
    with _models(stage) as url:
        environment = _environment(stage)
        _make_repository(stage, environment)
        _make_home(stage, url, environment)
        for number, scene in enumerate(scenes.SCENES, start=1):
            note(f"brief {number}: {scene.title} ({scene.shows})")
        code = _dispatcher(stage, environment, "add", str(stage.home / "briefs"), "--repo", str(stage.repository))
        if code == 0:
            note(f"running them on {' and '.join(stage.harnesses)} ...")
            code = _dispatcher(stage, environment, "run")
    _report(stage)
    return code


def _fresh(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="dispatcher-demo-"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is not empty", hint="name a folder that does not exist yet")
    return folder.absolute()


def _choose(worker: str) -> tuple[str, ...]:
    """The harnesses that play. Asked for by name, a CLI must be there; by itself it is taken when it is."""
    if worker not in WORKERS:
        raise BadInput(f"there is no worker {worker!r}", hint="one of " + ", ".join(WORKERS))
    if worker == "scripted":
        return ("scripted",)
    wanted = ("opencode", "claude") if worker in ("auto", "both") else (worker,)
    there = tuple(name for name in wanted if _installed(name) is not None)
    if worker != "auto" and there != wanted:
        lacking = ", ".join(name for name in wanted if name not in there)
        raise BadInput(f"not installed: {lacking}", hint="dispatcher demo --worker scripted needs nothing")
    return there or ("scripted",)


def _installed(harness: str) -> tuple[str, ...] | None:
    from dispatcher.config import find_program

    return find_program(harness, None, os.environ)


@contextmanager
def _models(stage: Stage) -> Iterator[str | None]:
    """The scripted model server, where a real CLI needs one."""
    if stage.scripted:
        yield None
        return
    from dispatcher.demo.model_server import ModelServer

    scripts = scenes.server_scripts()
    every = {model: steps for model, steps in scripts.items()}
    every |= {_MODEL_IDS["claude"].format(model): steps for model, steps in scripts.items()}
    with ModelServer(every, log=stage.root / "requests.jsonl") as server:
        yield server.url


def _environment(stage: Stage) -> dict[str, str]:
    """This process's own, with every folder of a person replaced by one of the stage, and an invented key."""
    folders = {
        "HOME": stage.user,
        "XDG_CONFIG_HOME": stage.user / ".config",
        "XDG_DATA_HOME": stage.user / ".local" / "share",
        "XDG_STATE_HOME": stage.user / ".local" / "state",
        "XDG_CACHE_HOME": stage.user / ".cache",
        "CLAUDE_CONFIG_DIR": stage.user / ".claude",
    }
    package = str(Path(__file__).resolve().parents[2])  # so that `-m` finds this very program, installed or not
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "DISPATCHER_"))}
    return {
        **kept,
        **{name: str(folder) for name, folder in folders.items()},
        "ANTHROPIC_API_KEY": _INVENTED_KEY,
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "DISPATCHER_HOME": str(stage.home),
        "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
    }


def _make_repository(stage: Stage, environment: Mapping[str, str]) -> None:
    for name, text in scenes.REPOSITORY.items():
        (stage.repository / name).write_text(text, encoding="utf-8")
    _git(stage, environment, "init", "-q", "-b", "main")
    _git(stage, environment, "config", "user.name", "Dispatcher Demo")
    _git(stage, environment, "config", "user.email", "demo@example.invalid")
    _git(stage, environment, "add", "-A")
    _git(stage, environment, "commit", "-qm", "A repository to try things in")


def _git(stage: Stage, environment: Mapping[str, str], *words: str) -> None:
    try:
        done = subprocess.run(
            ["git", "-C", str(stage.repository), *words], env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise BadInput("git is not installed", hint="install git; everything here is judged by it") from None
    if done.returncode:
        raise BadInput(f"git {words[0]} failed: {done.stderr.strip()}")


def _make_home(stage: Stage, url: str | None, environment: Mapping[str, str]) -> None:
    (stage.home / "models.yaml").write_text(models_yaml(stage, url), encoding="utf-8")
    briefs = stage.home / "briefs"
    briefs.mkdir()
    for number, scene in enumerate(scenes.SCENES, start=1):
        text = scenes.brief(scene, scripted=stage.scripted)
        (briefs / f"{number}-{scene.name}.md").write_text(text, encoding="utf-8")
    if url is not None:
        from dispatcher.demo.model_server import opencode_config

        settings = stage.user / ".config" / "opencode" / "opencode.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(opencode_config(url, scenes.MODELS), indent=2), encoding="utf-8")
    _dispatcher(stage, environment, "trust")


def models_yaml(stage: Stage, url: str | None) -> str:
    """The home's configuration: each model as a candidate; where both CLIs play, claude is the clumsy one."""
    names = {model: model.removeprefix("demo-") for model in scenes.MODELS}
    lines = ["# Made by `dispatcher demo`. The models are scripted; nothing here costs anything.", "credentials:"]
    for harness in stage.harnesses:
        lines.append(f"  {_credential(harness, url)}")
    lines.append("candidates:")
    for model in scenes.MODELS:
        harness = stage.harnesses[-1 if model == scenes.CLUMSY else 0]
        full = _MODEL_IDS[harness].format(model)
        lines.append(f"  {names[model]}: {{harness: {harness}, model: {full}, credential: demo-{harness}}}")
    lines.append("routes:")
    for level, candidates in scenes.routes(names).items():
        lines.append(f"  {level}: [{', '.join(candidates)}]")
    lines += ["limits: {start: 2m, stall: 2m, hard_cap: 5m, jobs: 1, max_load_per_core: 1000}", ""]
    return "\n".join(lines)


def _credential(harness: str, url: str | None) -> str:
    if harness == "claude":
        return f'demo-claude: {{billing: free, env: [ANTHROPIC_API_KEY], base_url: "{url}"}}'
    return (
        f"demo-{harness}: {{billing: free}}" if url is None else f'demo-{harness}: {{billing: free, base_url: "{url}"}}'
    )


def _dispatcher(stage: Stage, environment: Mapping[str, str], *words: str) -> int:
    """One command of ours, in the demo's environment; what it says goes to stderr, the log alone is our output.

    It hangs on a pipe of ours: when the demo is killed or interrupted, `run` gets SIGTERM and ends its workers.
    """
    command = [sys.executable, "-m", "dispatcher.demo.tether", sys.executable, "-m", "dispatcher.cli", *words]
    with subprocess.Popen(
        [*command, "--home", str(stage.home)],
        cwd=stage.root,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=sys.stderr,
    ) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.communicate()  # closes the pipe
            raise


def _report(stage: Stage) -> None:
    from dispatcher.store import glance

    with home.opened(stage.home) as store:
        table(sorted(glance.attempts(store), key=lambda row: (row["task"], row["attempt"])), _COLUMNS)
    out()
    out(f"workers     {_workers(stage)}")
    out(f"home        {stage.home}  (models.yaml, briefs/, logs/)")
    out(f"repository  {stage.repository}  (git branch shows the delivered branches)")
    out(f"try next    dispatcher show {len(scenes.SCENES)} --home {stage.home}")
    out(f"remove it   rm -rf {shlex.quote(str(stage.root))}  (everything of the demo is in there)")


def _workers(stage: Stage) -> str:
    if stage.scripted:
        return "the built-in scripted worker (neither opencode nor claude is installed, or it was asked for)"
    return f"{' and '.join(_paths(stage.harnesses))} against a scripted model server on this machine"


def _paths(harnesses: Sequence[str]) -> Iterator[str]:
    for name in harnesses:
        yield f"{name} ({' '.join(_installed(name) or ('?',))})"
