"""`dispatcher demo`: three briefs for real, on the built-in worker, and on the real CLIs where they are installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo import scenes
from dispatcher.demo.script import Script
from tests.cli.conftest import Said
from tests.clis import need_cli
from tests.e2e.world import marked, until

REAL = pytest.mark.real_cli


def demo(tmp_path: Path, worker: str, *, programs: Path | None = None) -> tuple[Said, Path]:
    """Run it in a process of its own, with a PATH that holds these programs and the system's."""
    folder = tmp_path / "demo"
    path = os.pathsep.join(filter(None, (str(programs or ""), "/usr/local/bin", "/usr/bin", "/bin")))
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "a-real-key-of-a-person"}
    environment.pop("DISPATCHER_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher.cli", "demo", str(folder), "--worker", worker],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr), folder


def log_of(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher.cli", "log", "--json", "--home", str(folder / "home")],
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(json.loads(done.stdout), key=lambda row: (row["task"], row["attempt"]))


def check_story(said: Said, folder: Path) -> list[dict[str, Any]]:
    """Three tasks wait for review; the second met a limit, the third was finished by a prompt; git has the work."""
    assert said.code == 0, said.err
    rows = log_of(folder)
    assert {row["status"] for row in rows} == {"needs_review"}
    told = [(row["task"], row["candidate"], row["prompt"], row["outcome"]) for row in rows]
    assert told == [
        (1, "steady", "first", "completed"),
        (2, "limited", "first", "rate_limited"),
        (2, "steady", "first", "completed"),
        (3, "clumsy", "first", "unknown"),
        (3, "clumsy", "finish", "completed"),
    ]
    for number, scene in enumerate(scenes.SCENES, start=1):
        branch = git(folder, "branch", "--list", f"dispatcher/{number}-*", "--format=%(refname:short)")
        assert git(folder, "show", f"{branch}:{scene.file}") == scene.content.strip()
        assert f"Dispatcher-Task: {number}" in git(folder, "log", "-1", "--format=%B", branch)
    assert said.out.splitlines()[0].split() == [
        *("task", "try", "worker", "candidate", "prompt", "outcome", "then", "took", "task", "is", "title"),
    ]
    assert said.out.splitlines()[-2:] == [
        f"try next    dispatcher show 3 --home {folder}/home",
        f"remove it   rm -rf {folder}  (everything of the demo is in there)",
    ]
    return rows


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder / "repository"), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_on_the_built_in_worker_where_no_cli_is_installed(tmp_path: Path) -> None:
    said, folder = demo(tmp_path, "auto" if not Path("/usr/local/bin/opencode").exists() else "scripted")
    check_story(said, folder)
    assert "the built-in scripted worker" in said.out
    assert {entry.name for entry in tmp_path.iterdir()} == {"demo"}, "it keeps to its own folder"


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_demo_that_is_ended_leaves_nothing_running(tmp_path: Path, ending: signal.Signals, code: int) -> None:
    """While a worker is at work: its run, the supervisor and the worker end, too. The signal reaches the demo alone."""
    ready, programs = tmp_path / "ready", tmp_path / "programs"
    programs.mkdir()
    real = f'[ -z "$DISPATCHER_ATTEMPT" ] && exec {shutil.which("git")} "$@"'
    hanging = f"#!/bin/sh\n{real}\ntouch {ready}\nexec sleep 300\n"
    (programs / "git").write_text(hanging)
    (programs / "git").chmod(0o755)
    command = [sys.executable, "-m", "dispatcher.cli", "demo", str(tmp_path / "demo"), "--worker", "scripted"]
    environment = {**os.environ, "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and hands that on
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
    signal.signal(signal.SIGINT, before)
    try:
        until(ready.exists, "a worker at work")
        assert len(marked(str(tmp_path))) > 2
        process.send_signal(ending)
        assert process.wait() == code
        until(lambda: marked(str(tmp_path)) == [], "the end of all that it began")
    finally:
        process.kill()
        process.wait()
        for pid in marked(str(tmp_path)):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)])
def test_a_command_on_a_tether_gives_its_code(script: str, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "dispatcher.demo.tether", "sh", "-c", script], stdin=subprocess.PIPE
    ) as process:
        assert process.wait() == code


@REAL
@pytest.mark.parametrize("worker", ["auto", "claude"])
def test_on_the_real_clis(tmp_path: Path, worker: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("opencode", "claude"):
        (programs / name).symlink_to(need_cli(name))
    said, folder = demo(tmp_path, worker, programs=programs)
    rows = check_story(said, folder)
    assert {row["harness"] for row in rows} == ({"opencode", "claude"} if worker == "auto" else {worker})
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    models = {
        request["model"].removeprefix("claude-").removesuffix("-1") for request in requests if request["protocol"]
    }
    assert models == set(scenes.MODELS)
    assert "a-real-key-of-a-person" not in json.dumps(requests)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--worker", "nobody"], "there is no worker 'nobody'"),
        (["--worker", "both"], "not installed: opencode, claude"),
        (["{full}"], "is not empty"),
    ],
)
def test_what_a_person_may_get_wrong(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.setattr("dispatcher.cli.demo._installed", lambda harness: None)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    said = run("demo", *(word.format(full=tmp_path / "full") for word in words))
    assert said.code == 2
    assert message in said.err


def test_the_scripts_of_the_server_can_be_played() -> None:
    for steps in scenes.server_scripts().values():
        Script(steps)


def test_every_scene_is_played_by_every_model_of_its_route() -> None:
    scripts = scenes.server_scripts()
    for scene in scenes.SCENES:
        for model in scene.route:
            script = Script(scripts[model])
            assert script.take(f"Headless run. {scenes.FIRST}.", scene.text) is not None, (scene.name, model)
