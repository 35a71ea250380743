r"""The published approval test as one command, over the real opencode and the real claude.

    DISPATCHER_TEST_CLIS=FOLDER python -m tests.approvals.published [--minutes 35] [--kills 50] [--denials 50] \
        [--cli CLI] [--case WORD]

Five decisions about one `set_flag` call: approve once, approve and remember, deny with a reason, leave pending (looked
at by a second client, after `kill -9` of everything, after the minutes), a denial of a call that was approved and used
before, and a kill during the approved call. Prints a table and exits 1 when a row fails. Short forms of the same are in
tests/e2e/test_approvals.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e import test_approvals as short
from tests.e2e.test_approvals import COMMIT, DONE, Published
from tests.e2e.world import real_world

Row = Callable[[Published], None]


def pending(minutes: float) -> Row:
    """A question that waits for a long time, is looked at again and again, and is answered then."""

    def row(world: Published) -> None:
        world.prepare()
        call = world.set_flag()
        again = [{"when": "Prompt: approved", "steps": [call, COMMIT, DONE]}] if world.harness == "opencode" else []
        task = short.parked(world, *again, {"text": "I set it.", **call}, COMMIT, DONE)
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            assert [row["status"] for row in world.approvals()] == ["pending"]
            assert world.writes == []
            world.run("run")
            time.sleep(min(60.0, max(0.0, end - time.monotonic())))
        world.run("approve", "1", check=True)
        world.run("run", check=True)
        assert len(world.writes) == 1
        assert world.task(task)["status"] == "needs_review", world.story(task)

    return row


def rows(minutes: float) -> dict[str, Row]:
    return {
        "approve once": short.test_approve_once,
        "approve and remember": short.test_approve_and_remember_releases_only_the_same_call,
        "deny with a reason": short.test_denied_with_a_reason,
        "pending after kill -9 of everything": short.test_a_question_outlives_kill_9_of_everything,
        f"pending after {minutes:g} minutes": pending(minutes),
        "changed by shell or edit tool": short.test_the_flag_file_is_guarded_whichever_tool_writes_it,
        "denied after the approval was used": short.test_denied_after_the_approval_was_used,
        "kill -9 during the approved call": short.test_kill_9_during_the_approved_call,
        "settings of the repository": short.test_hostile_settings_of_the_repository_open_nothing,
    }


def run(cli: Cli, row: Row) -> str:
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        root = Path(folder) / "w"
        root.mkdir()
        made = real_world(root, cli, server)
        try:
            row(Published(made.root, made.harness, made.server, made.program))
        except Exception as error:  # a failed row is a row of the table
            return f"FAILED: {type(error).__name__}: {str(error)[:300]}"
    return "pass"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=35.0)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--denials", type=int, default=50)
    parser.add_argument("--cli", choices=("opencode", "claude"), action="append")
    parser.add_argument("--case", default="", help="only rows whose name holds this")
    given = parser.parse_args()
    os.environ["DISPATCHER_APPROVAL_KILLS"] = str(given.kills)
    os.environ["DISPATCHER_APPROVAL_DENIALS"] = str(given.denials)
    failed = False
    sys.stdout.write("| case | CLI | result | seconds |\n|---|---|---|---|\n")
    for cli in given.cli or ("opencode", "claude"):
        for name, row in rows(given.minutes).items():
            if given.case not in name:
                continue
            begun = time.monotonic()
            result = run(cli, row)
            failed = failed or result != "pass"
            sys.stdout.write(f"| {name} | {cli} | {result} | {time.monotonic() - begun:.0f} |\n")
            sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
