"""The commands by name, without importing them: so `--help` is quick and a command pays only for itself.

Typer's decorators in `dispatcher.cli.commands` stay the definition; a test proves that this table says the same.
"""

from __future__ import annotations

from typing import NamedTuple

START = "Set up"
QUEUE = "Queue and run"
LOOK = "Look"
STEER = "Steer"
ROSTER = "Models and holds"
RECORD = "Report and move the log"
CARE = "By the clock, and cleaning up"

GROUPS = (START, QUEUE, LOOK, STEER, ROSTER, RECORD, CARE)


class Entry(NamedTuple):
    name: str
    module: str  # below dispatcher.cli.commands
    group: str
    help: str  # the first line of the command's help


COMMANDS = (
    Entry("demo", "start", START, "Run three briefs for real, without an account or network."),
    Entry("init", "start", START, "Write a models.yaml that fits this machine."),
    Entry("trust", "start", START, "Allow the configuration of a home to run commands here."),
    Entry("completion", "start", START, "Make TAB know commands, task numbers and models."),
    Entry("doctor", "start", START, "Check CLIs, models, logins, git, disk and this repository."),
    Entry("new", "queue", QUEUE, "Write a new brief to fill in."),
    Entry("add", "queue", QUEUE, "Queue briefs: files, a folder, or - for stdin."),
    Entry("edit", "queue", QUEUE, "Change the brief of a task that is not running."),
    Entry("run", "queue", QUEUE, "Work on the queue until nothing can run now."),
    Entry("compare", "compare", QUEUE, "Run one brief with several candidates, side by side."),
    Entry("status", "look", LOOK, "What runs, waits, and needs a person."),
    Entry("ready", "look", LOOK, "What can run now, and what other tasks wait for."),
    Entry("show", "look", LOOK, "One task whole: attempts, evidence, verdicts."),
    Entry("explain", "explain", LOOK, "Tell a task's story: what was seen, what was decided, why."),
    Entry("log", "history", LOOK, "The attempts, newest first."),
    Entry("watch", "history", LOOK, "One live screen: slots, queue, holds, approvals, load."),
    Entry("tail", "look", LOOK, "What a worker says and does, readable."),
    Entry("work", "look", LOOK, "Print the path of a task's copy."),
    Entry("classify", "explain", LOOK, "How a saved run of either CLI ended, and what proves it."),
    Entry("review", "review", STEER, "Look at finished work; accept or reject it."),
    Entry("approvals", "approvals", STEER, "Calls that wait for you, past answers, standing grants."),
    Entry("approve", "approvals", STEER, "Let a call that waits run, once."),
    Entry("deny", "approvals", STEER, "Refuse a call that waits; the model is told the reason."),
    Entry("cancel", "steer", STEER, "End tasks for good; the work is kept."),
    Entry("pause", "steer", STEER, "Stop tasks until they are resumed."),
    Entry("resume", "steer", STEER, "Queue paused tasks again."),
    Entry("retry", "steer", STEER, "Queue ended tasks again with fresh counters."),
    Entry("models", "roster", ROSTER, "The candidates and routes, and which are free now."),
    Entry("holds", "roster", ROSTER, "What is on hold, until when, and why."),
    Entry("hold", "roster", ROSTER, "Keep a candidate, credential or provider from use."),
    Entry("release", "roster", ROSTER, "Lift a hold."),
    Entry("quota", "roster", ROSTER, "What is used, of which budget, and when it runs out."),
    Entry("report", "history", RECORD, "What was done, on which model, and what it cost."),
    Entry("export", "history", RECORD, "Write the whole log as JSON lines; import reads it back."),
    Entry("import", "history", RECORD, "Read an export, a joblog, or what was run by hand."),
    Entry("cron", "care", CARE, "Start run by the clock: install, show or remove."),
    Entry("prune", "care", CARE, "Remove old logs and finished copies; never unsaved work."),
    Entry("bug-report", "care", CARE, "Pack one task into an archive, keys taken out."),
)

BY_NAME = {entry.name: entry for entry in COMMANDS}
