"""No word on a command line is passed over: what would do nothing beside the other words is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.cli.app import load
from dispatcher.cli.catalog import COMMANDS
from tests.cli.conftest import Run
from tests.cli.story import Story

NOTHING = (  # a line, and the word in it that would do nothing
    ("import --rebuild log.jsonl", "FILE"),
    ("import --rebuild --from claude", "--from"),
    ("import --rebuild --since 30d", "--since"),
    ("import --rebuild --credential zen", "--credential"),
    ("import log.jsonl --since 30d", "--since"),
    ("import log.jsonl --credential zen", "--credential"),
    ("init folder --home another", "--home"),
    ("approvals list extra", "WHAT"),
    ("approvals list --tool edit", "--tool"),
    ("approvals grants extra", "WHAT"),
    ("approvals grants --tool edit", "--tool"),
    ("approvals grants --watch", "--watch"),
    ("approvals test ls --watch", "--watch"),
    ("approvals revoke 1 --tool edit", "--tool"),
    ("approvals revoke 1 --watch", "--watch"),
    ("approvals revoke 1 --json", "--json"),
    ("log path --limit 3", "an option of the listing"),
    ("log metadata --csv", "an option of the listing"),
    ("log backup new.db --since 7d", "an option of the listing"),
    ("show 1 --stdout --brief", "--brief"),
    ("show 1 --stderr --json", "--json"),
    ("show 1 --prompt --json", "--json"),
    ("show 1 --json --brief", "--brief"),
    ("watch --once --every 5", "--every"),
    ("tail 1 --stderr --raw", "--raw"),
    ("review 1 --accept --diff", "--diff"),
    ("review 1 --accept --json", "--json"),
    ("review 1 --reject --note no --diff", "--diff"),
    ("review 1 --note fine --json", "--json"),
    ("review 1 --diff --json", "--json"),
    ("report --json --table main", "--table"),
    ("report --html page.html --table main", "--table"),
    ("report --tasks 3", "--tasks"),
    ("run --batch night", "--batch"),
    ("compare --batch night --times 3", "--times"),
    ("compare --batch night --repo .", "--repo"),
    ("compare --batch night -j 2", "--jobs"),
    ("compare --batch night --quiet", "--quiet"),
    ("cron show --every 5m", "--every"),
    ("cron show --add briefs", "--add"),
    ("cron remove --until 06:00", "--until"),
    ("cron remove --env-file keys", "--env-file"),
    ("cron remove --systemd", "--systemd"),
    ("prune --yes", "--yes"),
)
OTHERWISE = (  # refused in words of their own
    ("review 1 --how merge", "--how goes with"),
    ("review 1 --into main", "--into goes with"),
    ("review 1 --follow-up", "--follow-up goes with"),
    ("log path new.db", "log path takes no"),
    ("compare --batch night --candidates small", "which brief?"),
    ("models --json --csv", "one form only"),
    ("holds --json --csv", "one form only"),
    ("quota --json --csv", "one form only"),
    ("ready --json --csv", "one form only"),
    ("log --json --jsonl", "one form only"),
    ("report --markdown --csv", "one form only"),
)
# Options and arguments that always do something, or something beside every other word of their command. `--dry-run`
# is put behind the line that it tries, so what that line says is no mistake.
ALWAYS = {
    "demo": "folder worker",
    "completion": "shell",
    "doctor": "repo login json",
    "new": "title folder edit",
    "add": "briefs repo batch again json",
    "edit": "task",
    "run": "jobs task max-tasks add until max-minutes notify dry-run watch quiet json",
    "compare": "brief json",
    "status": "all json",
    "ready": "",
    "show": "task attempt stdout stderr prompt",
    "explain": "task json",
    "log": "what file",  # each filter is in one of the lines above, as one of all
    "watch": "once",
    "tail": "task follow attempt",
    "work": "task",
    "classify": "files json",
    "review": "task accept reject note with",
    "approvals": "action",
    "approve": "number remember yes",
    "deny": "number reason yes",
    "cancel": "tasks",
    "pause": "tasks",
    "resume": "tasks",
    "retry": "tasks",
    "hold": "name for reason json",
    "release": "name json",
    "report": "since until by unit difficulty candidate model harness credential repository batch",
    "export": "file",
    "import": "",
    "cron": "action",
    "prune": "older refs dry-run json",
    "bug-report": "task output",
}
LISTING = (
    "limit task status outcome verdict difficulty candidate model harness credential repository batch since until text "
    "where sort columns json jsonl csv"
)


@pytest.mark.parametrize(("line", "word"), NOTHING, ids=[line for line, _ in NOTHING])
def test_a_word_that_would_do_nothing_is_refused(home: Path, run: Run, line: str, word: str) -> None:
    said = run(*line.split())
    assert (said.code, said.out) == (2, "")
    first, second = said.err.splitlines()
    assert first.startswith(f"error: {word} does nothing with")
    assert second.startswith("hint: ")


@pytest.mark.parametrize(("line", "why"), OTHERWISE, ids=[line for line, _ in OTHERWISE])
def test_words_that_do_not_go_together_are_refused(home: Path, run: Run, line: str, why: str) -> None:
    story = Story(home)
    story.task()
    story.store.close()
    said = run(*line.split())
    assert (said.code, said.out) == (2, "")
    assert why in said.err.splitlines()[0]


@pytest.mark.parametrize("name", [*LISTING.split()])
def test_every_option_of_the_listing_is_refused_with_the_database_itself(home: Path, run: Run, name: str) -> None:
    value = {"limit": ["3"], "task": ["1"], "json": [], "jsonl": [], "csv": []}.get(name, ["x"])
    said = run("log", "path", f"--{name}", *value)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: an option of the listing does nothing with log path\n")


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS])
def test_of_every_word_it_is_known_beside_what_it_does_nothing(name: str) -> None:
    """A new option has to be thought about: it does something always, or a line above says when it does not."""
    told = {word for line, _ in (*NOTHING, *OTHERWISE) if line.split()[0] == name for word in line.split()[1:]}
    told |= {word for line, word in NOTHING if line.split()[0] == name}
    known = {*ALWAYS.get(name, "").split(), "home", *(LISTING.split() if name == "log" else ())}
    [entry] = [entry for entry in COMMANDS if entry.name == name]
    for parameter in load(entry).params:
        words = {parameter.name, *parameter.opts, (parameter.metavar or "").strip("[]")}
        plain = {str(word).lstrip("-") for word in words}
        assert plain & known or words & told, f"{name}: what does {parameter.opts} do beside the others?"
