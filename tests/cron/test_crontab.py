"""Schedules, the line, the marked block, and the command line over a stand-in for `crontab`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import cron
from dispatcher.errors import BadInput
from tests.e2e.world import World, scripted_world

JOB = cron.Job(
    home="/home/ann/my home",
    schedule="*/5 * * * *",
    argv=("/opt/dispatcher", "run", "--add", "/b/100% sure"),
    environment={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    log="/home/ann/my home/logs/cron.log",
)


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("1m", "* * * * *"),
        ("10m", "*/10 * * * *"),
        ("60m", "0 * * * *"),
        ("2h", "0 */2 * * *"),
        ("24h", "0 0 * * *"),
        ("02:30", "30 2 * * *"),
        ("0  3 * *  1-5", "0 3 * * 1-5"),
    ],
)
def test_schedules(said: str, fields: str) -> None:
    assert cron.schedule_of(said) == fields


@pytest.mark.parametrize(
    "said", ["7m", "0m", "5h", "25:00", "soon", "* * * *", "61 * * * *", "a * * * *", "1-0 * * * *"]
)
def test_what_is_no_schedule(said: str) -> None:
    with pytest.raises(BadInput):
        cron.schedule_of(said)


field = st.sampled_from(["*", "*/7", "0", "5", "1-3", "2,4", "1-5/2"])


@settings(max_examples=60, deadline=None)
@given(st.tuples(field, field, field, field, field), st.integers(1_700_000_000, 1_800_000_000))
def test_the_next_tick_is_the_first_minute_that_fits(fields: tuple[str, ...], now: int) -> None:
    """Against cron's rule read minute by minute, over two days."""
    fields = (
        fields[0],
        fields[1],
        *("1-31" if f == "0" else f for f in fields[2:3]),
        *("1" if f == "0" else f for f in fields[3:4]),
        fields[4],
    )
    text = " ".join(fields)
    found = cron.next_tick(text, float(now))
    for moment in range(now - now % 60 + 60, now + 2 * 86400, 60):
        if _fits(text, moment):
            assert found == moment
            return
    assert found is None or found >= now + 2 * 86400 - 60


def _fits(text: str, moment: int) -> bool:
    local = time.localtime(moment)
    minute, hour, day, month, weekday = text.split()

    def holds(field: str, value: int, low: int, high: int) -> bool:
        return value in cron._numbers(field, low, high)

    by_day = holds(day, local.tm_mday, 1, 31)
    by_week = holds(weekday, (local.tm_wday + 1) % 7, 0, 7) or (local.tm_wday == 6 and holds(weekday, 7, 0, 7))
    either = not day.startswith("*") and not weekday.startswith("*")
    days = (by_day or by_week) if either else (by_day and by_week)
    return (
        days
        and holds(minute, local.tm_min, 0, 59)
        and holds(hour, local.tm_hour, 0, 23)
        and holds(month, local.tm_mon, 1, 12)
    )


def test_the_line_is_read_back_by_a_shell_word_for_word() -> None:
    """cron takes a bare `%` for a line break and hands `\\%` on as `%`."""
    line = cron.line_of(JOB)
    assert line.startswith("*/5 * * * * cd ")
    assert "%" not in line.replace("\\%", "")
    shell = line.removeprefix("*/5 * * * * ").replace("\\%", "%")
    words = shlex.split(shell)
    assert words[:3] == ["cd", "/home/ann/my home", "&&"]
    assert words[3:5] == ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"]
    assert words[5:9] == list(JOB.argv)
    assert words[9:] == [">>", "/home/ann/my home/logs/cron.log", "2>&1"]


def test_a_line_that_cron_would_refuse_is_refused_before() -> None:
    from dataclasses import replace

    with pytest.raises(cron.CronError, match="cron takes"):
        cron.line_of(replace(JOB, environment={"PATH": ":".join(f"/a/folder/{n}" for n in range(100))}))
    with pytest.raises(cron.CronError, match="line break"):
        cron.line_of(replace(JOB, home="/a\nb"))


lines = st.lists(
    st.text(st.characters(exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"), max_size=30)
)


@settings(max_examples=100)
@given(lines, st.booleans())
def test_other_lines_stay_as_they_are(others: list[str], ended: bool) -> None:
    crontab = "\n".join(others) + ("\n" if ended and others else "")
    once = cron.with_block(crontab, "/h", "LINE 1")
    assert cron.block_of(once, "/h") == "LINE 1"
    twice = cron.with_block(cron.with_block(once, "/other", "X"), "/h", "LINE 2")
    assert cron.block_of(twice, "/h") == "LINE 2"
    assert twice.count("BEGIN dispatcher /h\n") == 1
    without = cron.with_block(cron.with_block(twice, "/other", None), "/h", None)
    assert without == crontab or without == crontab + "\n"


def test_a_block_without_its_end_is_left_to_a_person() -> None:
    with pytest.raises(cron.CronError, match="without its end"):
        cron.with_block("# BEGIN dispatcher /h\n* * * * * x\n", "/h", "LINE")


def test_units_of_systemd() -> None:
    made = cron.units(JOB)
    service, timer = (text for _, text in sorted(made.items()))
    assert "OnCalendar=*-*-* *:0/5:00" in timer
    assert "KillMode=process" in service, "the supervisors of running workers outlive the run"
    assert "100%% sure" in service
    if shutil.which("systemd-analyze"):
        checked = subprocess.run(["systemd-analyze", "calendar", "*-*-* *:0/5:00"], capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


# --- over a stand-in ---

CRONTAB = """#!/bin/sh
file={file}
case "$1" in
-l) [ -e $file ] && cat $file || {{ echo "no crontab for me" >&2; exit 1; }} ;;
-r) rm -f $file ;;
-) cat > $file.new && mv $file.new $file ;;
*) exit 64 ;;
esac
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return scripted_world(tmp_path)


def with_crontab(world: World) -> tuple[dict[str, str], Path]:
    folder, table = world.root / "bin", world.root / "table"
    folder.mkdir()
    (folder / "crontab").write_text(CRONTAB.format(file=table))
    (folder / "crontab").chmod(0o755)
    return {**world.environment, "PATH": f"{folder}:{world.environment['PATH']}"}, table


def test_install_show_remove(world: World) -> None:
    environment, table = with_crontab(world)
    table.write_text("MAILTO=ann\n0 4 * * * backup\n")
    world.run("cron", "install", "--every", "5m", "--add", str(world.home / "briefs"), env=environment, check=True)
    text = table.read_text()
    assert text.startswith("MAILTO=ann\n0 4 * * * backup\n# BEGIN dispatcher")
    line = text.splitlines()[3]
    for word in (
        "*/5 * * * * ",
        f"--home {world.home}",
        f"--add {world.home}/briefs",
        "/dispatcher run",
        "LANG=C.UTF-8",
    ):
        assert word in line
    assert "invented" not in text, "a key is never written down"
    assert world.run("cron", "show", env=environment, check=True).stdout.strip() == line
    status = world.run("status", check=True).stdout
    assert "next run by cron" in status
    for action in ("show", "remove"):
        other = world.run("cron", action, "--home", str(world.root / "other"), env=environment)
        assert f"the crontab has an entry of another home: {world.home}" in other.stderr

    again = world.run("cron", "install", "--every", "1h", env=environment, check=True)
    assert f"installed in your crontab for {world.home}:" in again.stderr
    assert table.read_text().count("# BEGIN dispatcher") == 1
    world.run("cron", "remove", env=environment, check=True)
    assert table.read_text() == "MAILTO=ann\n0 4 * * * backup\n"
    assert "next run by cron" not in world.run("status", check=True).stdout


def test_keys_come_from_a_file_that_only_its_owner_can_read(world: World) -> None:
    environment, table = with_crontab(world)
    world.harness = "claude"
    (world.home / "models.yaml").write_text(world.config_text().replace("base_url: ''", "budget: {usd: {day: 5}}"))
    said = world.run("cron", "install", env=environment, check=True)
    assert "ANTHROPIC_API_KEY" in said.stderr
    assert "invented" not in table.read_text()
    file = world.root / "keys"
    file.write_text("ANTHROPIC_API_KEY=invented\n")
    file.chmod(0o644)
    refused = world.run("cron", "install", "--env-file", str(file), env=environment)
    assert refused.returncode == 2
    assert "chmod 600" in refused.stderr
    file.chmod(0o600)
    world.run("cron", "install", "--env-file", str(file), env=environment, check=True)
    assert f". {file}" in table.read_text()


def test_words_where_there_is_no_cron(world: World) -> None:
    folder = world.root / "only"
    folder.mkdir()
    for name in ("git", "sh"):
        os.symlink(shutil.which(name) or "", folder / name)
    environment = {**world.environment, "PATH": str(folder)}
    refused = world.run("cron", "install", env=environment)
    assert refused.returncode == 2
    assert "there is no crontab on this machine" in refused.stderr
    assert "--systemd" in refused.stderr
    refused = world.run("cron", "install", "--systemd", env=environment)
    assert refused.returncode == 2
    assert "there is no systemctl" in refused.stderr
    assert world.run("cron", "dance", env=environment).returncode == 2
