"""Runs that nobody watches: they tell a person, they end in time, they leave a busy host alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.e2e.world import World, marked, script, scripted_world

WORK = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    until(lambda: not marked(str(tmp_path)))


def until(true: Callable[[], bool]) -> None:
    while not true():  # the test's own time limit ends a wait for nothing
        time.sleep(0.02)


def folder_of_briefs(world: World, **bodies: str) -> str:
    for name, body in bodies.items():
        world.brief(name, body)
    return str(world.home / "briefs")


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in folder.glob("*.json")]


# --- telling ---


def test_a_person_is_told_of_a_task_that_waits_and_of_the_end_of_the_batch(world: World) -> None:
    """The command gets JSON on stdin and no key; a task that is fine is not worth a message."""
    messages, names = world.root / "messages", world.root / "names"
    messages.mkdir()
    world.extra_config = (
        f"notify: 'env | cut -d= -f1 > {names}; cat > {messages}/$$; mv {messages}/$$ {messages}/$$.json'\n"
    )
    world.write_config()
    idle = script({"steps": [{"text": "key sk-ant-api03-abcdefghijklmnopqrstuvwxyz, done!"}]})
    ran = world.run("run", "--add", folder_of_briefs(world, good=script({"steps": WORK}), idle=idle))
    assert ran.returncode == 1, ran.stderr
    assert sorted(row["status"] for row in world.rows("select status from task")) == ["needs_human", "needs_review"]
    until(lambda: len(told(messages)) == 2)

    person, batch = sorted(told(messages), key=lambda one: one["event"], reverse=True)
    assert person["event"] == "needs_human"
    assert person["task"]["title"] == "Do what the script says."
    assert "changed nothing" in person["task"]["reason"]
    assert batch["event"] == "batch_end"
    assert batch["statuses"] == {"needs_human": 1, "needs_review": 1}
    assert "ANTHROPIC_API_KEY" not in names.read_text().split()
    assert "sk-ant" not in json.dumps(told(messages))

    assert f"batch {batch['batch']} ended: 1 needs_human, 1 needs_review" in ran.stdout
    assert "needs a person: task 2" in ran.stdout
    stored = world.rows("select * from batch")
    assert len(stored) == 1
    assert stored[0]["ended_at"] is not None
    assert json.loads(stored[0]["data"])["statuses"] == batch["statuses"]


def test_a_notifier_that_hangs_or_is_missing_changes_nothing(world: World) -> None:
    done = world.root / "done"
    world.brief("good", script({"steps": WORK}))
    ran = world.run("run", "--add", str(world.home / "briefs"), "--notify", f"cat > {done}; exec sleep 3600")
    assert ran.returncode == 0, ran.stderr
    until(lambda: done.exists() and bool(done.read_text()))
    for pid in marked("sleep\x003600"):
        if str(world.root) in Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace"):
            os.kill(pid, 9)

    world.extra_config = "notify: [/nowhere/at-all]\n"
    world.write_config()
    world.brief("more", script({"steps": WORK}) + "again")
    ran = world.run("run", "--add", str(world.home / "briefs"))
    assert ran.returncode == 0, ran.stderr
    until(lambda: "No such file" in (world.home / "logs/notify.log").read_text())


class Hook(BaseHTTPRequestHandler):
    bodies: list[Any] = []  # noqa: RUF012  # of one test

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(500 if "broken" in self.path else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_webhook_is_posted_to_and_its_address_is_in_no_log(world: World) -> None:
    Hook.bodies.clear()
    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        world.extra_config = f"webhook: http://127.0.0.1:{server.server_port}/broken/very-secret-path\n"
        world.write_config()
        world.brief("good", script({"steps": WORK}))
        ran = world.run("run", "--add", str(world.home / "briefs"))
        assert ran.returncode == 0, ran.stderr
        log = world.home / "logs/notify.log"
        until(lambda: log.exists() and "HTTP 500" in log.read_text())
        assert [body["event"] for body in Hook.bodies] == ["batch_end"]
        until(lambda: not marked("notify.py"))
    finally:
        server.shutdown()
        server.server_close()
    for file in (world.home / "logs").rglob("*"):
        assert not file.is_file() or b"very-secret-path" not in file.read_bytes(), file


# --- in time ---


def test_nothing_is_started_after_the_end_of_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks, one slot, and a clock that reaches the end while the first one works: the second stays queued."""
    from dispatcher import config, scheduler, store

    world.limits = {"jobs": 1}
    world.write_config()
    for name in ("a", "b"):
        world.add(world.brief(name, script({"steps": WORK}) + name))
    for variable, value in world.environment.items():
        monkeypatch.setenv(variable, value)
    ended = [False]
    monkeypatch.setattr(scheduler, "closed", lambda options: options.until is not None and ended[0])

    def say(*_: object) -> None:
        ended[0] = True

    with store.open(config.database(world.home)) as opened:
        options = scheduler.Options(until=1.0, say=say)
        summary = scheduler.run(config.load(world.home), opened, world.home / "logs", options)
        assert [row["status"] for row in world.rows("select status from task order by id")] == [
            "needs_review",
            "queued",
        ]
        assert "the time of this run is over" in summary.note
        again = scheduler.run(config.load(world.home), opened, world.home / "logs", options)
        assert again.moved == [], "and a run that begins after its end starts nothing at all"


def test_when_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from dispatcher.cli.running import deadline
    from dispatcher.errors import BadInput

    noon = time.mktime((2026, 3, 10, 12, 0, 0, 0, 0, -1))
    assert deadline(noon, None, None) is None
    assert deadline(noon, None, 90) == noon + 5400
    assert deadline(noon, "18:00", None) == noon + 6 * 3600
    assert deadline(noon, "06:00", None) == time.mktime((2026, 3, 11, 6, 0, 0, 0, 0, -1)), "the next morning"
    assert deadline(noon, "12:00", None) == time.mktime((2026, 3, 11, 12, 0, 0, 0, 0, -1))
    assert deadline(noon, "06:00", 90) == noon + 5400, "whichever comes first"
    for wrong in ("25:00", "6 o'clock", ""):
        with pytest.raises(BadInput):
            deadline(noon, wrong, None)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"min_free_memory": "900TiB"}, "min_free_memory"),
        ({"min_free_disk": "900TiB"}, "min_free_disk"),
        ({"max_load_per_core": 0.0001}, "max_load_per_core"),
    ],
)
def test_a_busy_host_starts_nothing_and_says_why(world: World, limit: dict[str, Any], words: str) -> None:
    """Under cron the run ends, since the next one comes by itself; the task stays queued and nobody failed."""
    world.limits = limit
    world.write_config()
    task = world.add(world.brief("a", script({"steps": WORK})))
    ran = world.run("run")
    assert ran.returncode == 75, (ran.stdout, ran.stderr)
    assert words in ran.stderr
    assert world.task(task)["status"] == "queued"
    assert world.attempts(task) == []


def test_a_person_waits_for_the_host(world: World) -> None:
    """On a terminal the run says what it waits for, and Ctrl-C ends the wait; nothing was started."""
    world.limits = {"min_free_disk": "900TiB"}
    world.write_config()
    task = world.add(world.brief("a", script({"steps": WORK})))
    out = world.root / "run.out"
    with out.open("wb") as file:
        process = subprocess.Popen(
            world.command("run"),
            env={**world.environment, "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=world.root,
            start_new_session=True,
        )
    try:
        until(lambda: "waits for the host" in out.read_text() or process.poll() is not None)
        assert process.poll() is None, out.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 75
    finally:
        process.kill()
        process.wait()
    assert "min_free_disk" in out.read_text()
    assert world.task(task)["status"] == "queued"
    assert world.attempts(task) == []


# --- code of the repository ---


def fake_cli(world: World, name: str) -> Path:
    program = world.root / name
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1.18.33 && exit 0\ntouch "$HOME/was-started"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_a_repository_with_its_own_plugin_is_refused_and_named(world: World) -> None:
    """Judged on the base commit, before anything is started; `trust: true` or a sandbox lets it run."""
    program = fake_cli(world, "opencode")
    config = world.config_text().replace("harness: scripted", "harness: opencode")
    config += f"harnesses: {{opencode: {{path: '{program}'}}}}\n"
    (world.home / "models.yaml").write_text(config)
    (world.repo / ".opencode/plugin").mkdir(parents=True)
    (world.repo / ".opencode/plugin/spy.js").write_text("export const A = async () => ({})\n")
    (world.repo / "opencode.json").write_text('{"mcp": {"x": {"type": "local", "command": ["x"]}}}')
    world.git("add", ".")
    world.git("commit", "-qm", "a plugin")
    task = world.add(world.brief("a", "Work."))
    assert world.run("run").returncode == 1

    row = world.task(task)
    assert row["status"] == "needs_human"
    for named in (".opencode/plugin/spy.js", "opencode.json", "trust: true", "sandbox"):
        assert named in row["status_reason"]
    assert world.attempts(task) == []
    assert not (world.user_home / "was-started").exists()

    (world.home / "models.yaml").write_text(config + f"repositories: {{'{world.repo}': {{trust: true}}}}\n")
    world.run("retry", str(task), check=True)
    world.run("run")
    assert world.attempts(task), "trusted, it is started"
    assert (world.user_home / "was-started").exists()


# --- the sandbox without a real CLI ---

bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@bwrap
def test_checks_run_in_the_sandbox_of_their_task(world: World) -> None:
    """`verify` runs what the worker wrote; the brief names the sandbox, the configuration does not."""
    (world.user_home / ".ssh").mkdir()
    (world.user_home / ".ssh/id").write_text("private")
    task = world.add(
        world.brief(
            "boxed",
            script({"steps": WORK}),
            sandbox="bwrap",
            setup=[f"test ! -e {world.user_home}/.ssh/id"],
            verify=[
                f"test ! -e {world.user_home}/.ssh/id && test -e a.txt && ! test -e {world.home}/logs/dispatcher.db"
            ],
        )
    )
    ran = world.run("run")
    assert ran.returncode == 0, world.story(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.rows("select passed from check_result") == [{"passed": 1}]


def test_a_sandbox_that_is_not_there_is_said_before_anything_starts(world: World) -> None:
    world.extra_config = "sandboxes: {podman: {image: 'workers:1'}}\nsandbox: podman\n"
    world.write_config()
    if shutil.which("podman"):
        pytest.skip("podman is installed here")
    task = world.add(world.brief("a", script({"steps": WORK})))
    assert world.run("run").returncode == 1
    row = world.task(task)
    assert row["status"] == "needs_human"
    assert "podman is not installed" in row["status_reason"]
    assert world.attempts(task) == []


def test_a_template_of_the_users_own(world: World) -> None:
    wrapper = world.root / "box.sh"
    wrapper.write_text('#!/bin/sh\necho "$@" >> "$BOXED/seen"\nshift 1\nexec "$@"\n')
    wrapper.chmod(0o755)
    world.extra_config = (
        f"sandboxes: {{mine: {{command: ['{wrapper}', '{{copy}}', '{{command}}']}}}}\n"
        "sandbox: mine\nenvironment: {pass: [BOXED]}\n"
    )
    world.write_config()
    task = world.add(world.brief("a", script({"steps": WORK})))
    ran = world.run("run", env={**world.environment, "BOXED": str(world.root)})
    assert ran.returncode == 0, world.story(task)
    assert world.task(task)["status"] == "needs_review"
    assert str(world.task(task)["copy_path"]) in (world.root / "seen").read_text()


def test_a_container_is_asked_for_and_ended_by_name(world: World) -> None:
    """A stand-in for docker: what it is asked, and that no value of a variable is among it."""
    folder = world.root / "bin"
    folder.mkdir()
    docker = folder / "docker"
    docker.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {world.root}/asked\n')
    docker.chmod(0o755)
    world.extra_config = "sandboxes: {docker: {image: 'workers:1'}}\nsandbox: docker\n"
    world.write_config()
    task = world.add(world.brief("a", script({"steps": WORK})))
    world.run("run", env={**world.environment, "PATH": f"{folder}:{world.environment['PATH']}"})
    asked = (world.root / "asked").read_text().splitlines()
    marker = world.attempts(task)[0]["marker"]
    assert asked[0].startswith("run --rm")
    assert "workers:1" in asked[0]
    assert "invented" not in asked[0]
    assert f"rm --force dispatcher-{marker}" in asked


# --- looking after ---


def finish(world: World, task: int, days: float) -> None:
    """As if a person had accepted it that long ago."""
    import sqlite3

    with sqlite3.connect(world.home / "logs/dispatcher.db") as connection:
        connection.execute(
            "update task set status = 'accepted', updated_at = ? where id = ?", (time.time() - days * 86400, task)
        )
    connection.close()


def test_prune_removes_what_is_saved_and_nothing_else(world: World) -> None:
    saved = world.do(world.brief("saved", script({"steps": WORK})))
    young = world.do(world.brief("young", script({"steps": WORK}) + "young"))
    late = world.do(world.brief("late", script({"steps": WORK}) + "late"))
    copies = {task: Path(world.task(task)["copy_path"]) for task in (saved, young, late)}
    (copies[late] / "made later").write_text("by hand, on no ref\n")
    for task, days in ((saved, 40), (young, 1), (late, 40)):
        finish(world, task, days)
    (world.home / "logs/mine.txt").write_text("not ours")
    refs = world.git("for-each-ref", "refs/dispatcher")

    tried = world.run("prune", "--dry-run", check=True)
    assert "would free" in tried.stdout
    assert all(path.is_dir() for path in copies.values())

    done = world.run("prune", check=True)
    assert not copies[saved].exists()
    assert not copies[saved].parent.exists()
    assert not (world.home / f"logs/{saved}").exists()
    assert copies[young].is_dir()
    assert (world.home / f"logs/{young}").is_dir()
    assert (copies[late] / "made later").exists()
    assert "uncommitted changes" in done.stderr
    assert (world.home / "logs/mine.txt").exists()
    assert world.git("for-each-ref", "refs/dispatcher") == refs, "refs only after asking"
    assert world.git("show", f"{world.task(saved)['branch']}:a.txt") == "a"

    asked = world.run("prune", "--refs", check=True)
    assert "nobody is here to be asked" in asked.stderr or "nothing to do" in asked.stdout
    assert world.git("for-each-ref", "refs/dispatcher") == refs


def test_refs_go_only_when_a_person_says_so(world: World) -> None:
    task = world.do(world.brief("saved", script({"steps": WORK})))
    other = world.do(world.brief("open", script({"steps": WORK}) + "open"))
    finish(world, task, 40)
    refs = world.git("for-each-ref", "--format=%(refname)", "refs/dispatcher").splitlines()
    mine = [ref for ref in refs if ref.startswith(f"refs/dispatcher/{task}/")]
    assert mine
    made = time.time()
    until(lambda: time.time() > made + 2.5)  # refs are dated in whole seconds

    asked = world.run("prune", "--refs", "--older", "1s", check=True)
    assert "nobody is here to be asked" in asked.stderr
    assert world.git("for-each-ref", "--format=%(refname)", "refs/dispatcher").splitlines() == refs

    done = world.run("prune", "--refs", "--older", "1s", "--yes", check=True)
    left = world.git("for-each-ref", "--format=%(refname)", "refs/dispatcher").splitlines()
    assert set(refs) - set(left), done.stdout
    assert set(refs) - set(left) <= set(mine)
    assert [ref for ref in refs if ref.startswith(f"refs/dispatcher/{other}/")] == [
        ref for ref in left if ref.startswith(f"refs/dispatcher/{other}/")
    ]
    assert world.git("show", f"{world.task(task)['branch']}:a.txt") == "a"


def test_a_bug_report_holds_the_task_and_no_key(world: World) -> None:
    key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz012345"
    steps = [{"text": f"I found {key} and the invented-password-of-mine"}, *WORK]
    task = world.do(world.brief("leaky", script({"steps": steps})))
    environment = {**world.environment, "MY_TOKEN": "invented-password-of-mine"}
    said = world.run("bug-report", str(task), check=True, env=environment)
    archive = world.root / f"dispatcher-report-{task}.tar.gz"
    assert said.stdout.strip() == archive.name
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with tarfile.open(archive) as packed:
        texts = {m.name.partition("/")[2]: packed.extractfile(m).read().decode() for m in packed}  # type: ignore[union-attr]
    for name in (
        "versions.json",
        "task.json",
        "attempts.json",
        "events.json",
        "models.yaml",
        "logs/1/stdout",
        "logs/1/exit.json",
    ):
        assert texts[name], name
    everything = "".join(texts.values())
    assert "the work" in everything
    assert key not in everything
    assert "invented-password-of-mine" not in everything
    assert str(world.user_home) not in everything
    again = world.run("bug-report", str(task))
    assert again.returncode == 2
    assert "exists already" in again.stderr
