"""A joblog that the real GNU parallel has written becomes tasks, once."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import intake
from dispatcher.errors import BadInput
from tests.cli.conftest import Said, home, run

__all__ = ["home", "run"]  # fixtures

HEAD = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"


@pytest.fixture
def joblog(tmp_path: Path) -> Path:
    program = shutil.which("parallel")
    if program is None:
        pytest.skip("needs GNU parallel")
    file = tmp_path / "jobs.log"
    subprocess.run(
        [
            program,
            "--will-cite",
            "-j",
            "2",
            "--joblog",
            str(file),
            "exec sh -c {}",
            ":::",
            "exit 0",
            "exit 3",
            "kill -9 $$",
        ],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    return file


def test_each_job_is_a_task_of_its_own(joblog: Path, home: Path, run: Callable[..., Said]) -> None:
    said = run("import", "--from", "joblog", str(joblog))
    assert said.code == 0, said.err
    rows = json.loads(run("log", "--json").out)
    found = sorted((row["outcome"], row["status"], row["exit_code"]) for row in rows)
    assert found == [("completed", "accepted", 0), ("killed", "cancelled", 0), ("unknown", "cancelled", 3)]
    assert all(row["title"].startswith("exec sh -c") for row in rows)
    assert {row["source"] for row in rows} == {"import"}
    assert {row["harness"] for row in rows} == {"parallel"}
    report = json.loads(run("report", "--json").out)["tables"]
    assert sum(row["attempts"] for row in report["main"]) == 3
    assert sum(row["accepted"] for row in report["main"]) == 0, "nobody judged them"


def test_a_second_import_adds_nothing(joblog: Path, home: Path, run: Callable[..., Said]) -> None:
    run("import", "--from", "joblog", str(joblog))
    again = run("import", "--from", "joblog", str(joblog))
    assert "0 runs of joblog added as tasks; 3 were in the log already" in again.err
    assert len(json.loads(run("log", "--json").out)) == 3


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["nothing\n"], "x:1: this is no joblog"),
        ([HEAD, "1\t:\tsoon\t1\t0\t0\t0\t0\tls\n"], "x:2: this is no line of a joblog"),
        ([HEAD, "1\t:\n"], "x:2: this is no line"),
        ([HEAD, "1\t:\tnan\t1\t0\t0\t0\t0\tls\n"], "x:2: a time in this line"),
    ],
)
def test_what_is_no_joblog_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(BadInput) as raised:
        list(intake.joblog(lines, "x"))
    assert raised.value.message.startswith(said)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_line_is_a_job_or_an_error(text: str) -> None:
    try:
        for job in intake.joblog([HEAD, text], "x"):
            assert job.title
    except BadInput:
        return
