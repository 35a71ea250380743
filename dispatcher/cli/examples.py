"""Examples at the end of every command's help. A test gives each of them to Typer, so none can go stale.

Each is a command line and, where it does not say it itself, what it is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_WIDTH = 78

EXAMPLES: Mapping[str, Sequence[tuple[str, str]]] = {
    "demo": [
        ("dispatcher demo", "on the installed CLIs, else on the built-in worker"),
        ("dispatcher demo ~/demo --worker scripted", "kept in ~/demo to look around in"),
    ],
    "init": [
        ("dispatcher init", "in the user's configuration folder"),
        ("dispatcher init .", "here, beside the briefs"),
    ],
    "trust": [("dispatcher trust --home ~/work/dispatcher", "")],
    "completion": [
        ('eval "$(dispatcher completion bash)"', "in ~/.bashrc; the same with zsh in ~/.zshrc"),
        ("dispatcher completion fish | source", "in config.fish"),
    ],
    "doctor": [
        ("dispatcher doctor --repo ~/src/shop", ""),
        ("dispatcher doctor --login", "also whether each CLI is logged in"),
    ],
    "new": [('dispatcher new "Fix the login redirect" --edit', "")],
    "add": [
        ("dispatcher add briefs/fix-login.md", ""),
        ("dispatcher add briefs/ --repo ~/src/shop", "every *.md of a folder"),
        ('echo "Fix the typo in README" | dispatcher add -', ""),
        ("dispatcher add briefs/fix-login.md --again", "once more, though it was done"),
    ],
    "edit": [("dispatcher edit 12", "")],
    "run": [
        ("dispatcher run --dry-run", "which model each task would get, and why"),
        ("dispatcher run -j 2", "two at a time, until nothing can run now"),
        ("dispatcher run --add briefs/ --until 07:00", "for the night"),
        ("dispatcher run --watch --notify 'notify-send \"dispatcher\"'", "stay, and say when a person is needed"),
    ],
    "compare": [
        ("dispatcher compare briefs/parser.md --candidates sonnet,pickle --times 3", ""),
        ("dispatcher compare --batch parser-20261101-093000", "its table again"),
    ],
    "status": [
        ("dispatcher status", ""),
        ("dispatcher status --json | jq .counts", ""),
    ],
    "ready": [("dispatcher ready", "what can start now, and what waits for which task")],
    "show": [
        ("dispatcher show 12", ""),
        ("dispatcher show 12 --attempt 2 --stderr", ""),
        ("dispatcher show 12 --json | jq '.attempts[].verdict_reason'", ""),
    ],
    "explain": [("dispatcher explain 12", "why it went to that model, and what was decided after each attempt")],
    "log": [
        ("dispatcher log --outcome failed --since 7d", ""),
        ('dispatcher log --text "login redirect" --json', ""),
        ('dispatcher log --where "seconds > 600" --sort ~seconds', "the longest first"),
        ("dispatcher log --columns task,model,outcome,title -n 50", ""),
        ("dispatcher log -n 0 --jsonl > attempts.jsonl", "all of it"),
        ("dispatcher log backup ~/dispatcher-backup.db", ""),
    ],
    "watch": [
        ("dispatcher watch", "q or Ctrl-C ends it"),
        ("dispatcher watch --once", ""),
    ],
    "tail": [
        ("dispatcher tail 12 -f", "while it runs"),
        ("dispatcher tail 12 --attempt 1 --stderr", ""),
    ],
    "work": [('cd "$(dispatcher work 12)"', "")],
    "classify": [
        ("dispatcher classify logs/12/1", "an attempt's folder"),
        ("opencode run --format json 'hello' 2>&1 | dispatcher classify -", ""),
    ],
    "review": [
        ("dispatcher review 7", "the change in numbers, the checks, the cost"),
        ("dispatcher review 7 --diff | less", ""),
        ("dispatcher review 7 --with opus", "a second model looks at it first"),
        ("dispatcher review 7 --accept --into main --how merge", ""),
        ('dispatcher review 7 --reject --note "no test" --follow-up', "queued again, with the note"),
    ],
    "approvals": [
        ("dispatcher approvals", ""),
        ('dispatcher approvals test "git push"', "what would be decided about it, without running it"),
    ],
    "approve": [
        ("dispatcher approve 3", ""),
        ("dispatcher approve 3 --remember repo", "the same call never asks again there"),
    ],
    "deny": [('dispatcher deny 3 --reason "use the staging server"', "")],
    "cancel": [("dispatcher cancel 12 13", "")],
    "pause": [("dispatcher pause 12", "")],
    "resume": [("dispatcher resume 12", "")],
    "retry": [("dispatcher retry 12", "")],
    "models": [
        ("dispatcher models", ""),
        ("dispatcher models --csv", ""),
    ],
    "holds": [("dispatcher holds", "")],
    "hold": [
        ('dispatcher hold max-plan --for 3d --reason "keep the rest for Friday"', ""),
        ("dispatcher hold pickle", "until it is released"),
    ],
    "release": [("dispatcher release max-plan", "")],
    "quota": [("dispatcher quota", "")],
    "report": [
        ('dispatcher report --since "last month"', ""),
        ("dispatcher report --by model --markdown", "for a pull request or a post"),
        ("dispatcher report --html report.html", "one page with charts"),
    ],
    "export": [("dispatcher export log.jsonl", "")],
    "import": [
        ("dispatcher import log.jsonl", "into an empty home"),
        ("dispatcher import --from claude --since 30d", "what was run by hand"),
        ("dispatcher import --from joblog jobs.log", ""),
        ("dispatcher import --rebuild", "after the database was lost"),
    ],
    "cron": [
        ("dispatcher cron install --every 10m --add ~/briefs", ""),
        ("dispatcher cron show", ""),
        ("dispatcher cron remove", ""),
    ],
    "prune": [
        ("dispatcher prune --dry-run", ""),
        ("dispatcher prune --older 90d --refs", "also the last hold on old work, after asking"),
    ],
    "bug-report": [("dispatcher bug-report 12 -o report.tar.gz", "")],
}


def epilog(name: str) -> str:
    """The end of a command's help. The mark at its top keeps the lines as they are."""
    lines = ["\b", "Examples:"]
    for line, purpose in EXAMPLES[name]:
        if purpose and len(line) + len(purpose) + 6 > _WIDTH:
            lines.append(f"  # {purpose}")
            purpose = ""
        lines.append(f"  {line}" + (f"  # {purpose}" if purpose else ""))
    return "\n".join(lines)
