"""What a worker is told: first, finish, continue, confirm, and the one after an answered approval.

The first line is always ours and names the kind. So a brief that starts with `/` or `-` is text and no command of the
CLI (claude 2.1 runs `/compact` itself), and anyone who reads a transcript knows which prompt it was. Every prompt but
the first is bounded; the first carries the whole brief, because half a brief is another brief.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dispatcher.task import CheckResult, Evidence, Expect, Outcome, PromptKind

# claude 2.1 attaches the file of an `@path` word without asking: at the start, after a blank (as JavaScript
# understands it) or after one of four CJK marks; `@[` anywhere.
_ATTACHES = re.compile(r"(?:(?<=[\s\ufeff\u3001\u3002\uff01\uff1f])|\A)@(?=\S)|(?<!\\)@(?=\[)")
_TEST_FILE = re.compile(r"(^|/)(tests?|spec|__tests__)/|(^|/)test_[^/]*$|[._-](test|spec)\.[^/]*$")
_UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_OUTPUT = 6_000  # characters of one check's output
_TEXT = 4_000  # characters of the last text of a worker
_NOTE = 12_000
_NAMES = 60  # entries of a list of files or commits


@dataclass(frozen=True)
class Parts:
    """Everything a prompt may be made of. `body` is the brief without its front matter."""

    title: str
    body: str
    expect: Expect = Expect.COMMIT
    rules: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    copy: str = ""
    timeout_binary: str | None = None
    evidence: Evidence | None = None
    previous: Outcome | None = None
    failed_checks: tuple[CheckResult, ...] = ()
    note: str = ""
    touch: tuple[str, ...] = ()
    salvaged: tuple[str, str] | None = None  # repository, ref: earlier work that the folder does not hold any more


def build(kind: PromptKind, parts: Parts, *, limit: int = 200_000) -> str:
    """The whole text. `limit` (characters) holds for every kind but the first; it is met by cutting the middles."""
    head = f"Headless run. Prompt: {kind.value}.\n\n"
    before, after = _before(kind, parts), _after(kind, parts)
    body = _encodable(parts.body.strip())
    if kind is not PromptKind.FIRST:
        around = len(_neutral(before + after)) + len(head) + 100  # a few for the titles in between
        body = _cut(body, max(limit - around - len(_ATTACHES.findall(body)), 0))
    title = f"The brief: {_printable(parts.title)}" if kind is PromptKind.FIRST else "The brief, for reference"
    text = head + _neutral(f"{before}\n\n## {title}\n\n{body}\n\n{after}\n")
    if kind is PromptKind.FIRST or len(text) <= limit:
        return text
    return _ATTACHES.sub(r"\\@", _cut(text, limit - 1))  # the cut may have parted a sign from its backslash


def _before(kind: PromptKind, parts: Parts) -> str:
    """What to do, what is there, what is left: the parts that a reader of a long brief must not miss."""
    sections = [
        "You work alone: nobody reads along and nobody can answer a question. Decide what you can decide, and say at "
        "the end what you could not.",
        f"## What to do now\n\n{_TASK[kind](parts)}",
        *_elsewhere(parts),
    ]
    if kind is PromptKind.FIRST:
        sections += [f"## What happened before\n\n{_cut(parts.note, _NOTE)}"] if parts.note.strip() else []
    else:
        sections += [f"## The goal\n\n{parts.title}", *_there(parts.evidence), *_left(kind, parts)]
    return _printable("\n\n".join(sections))


def _after(kind: PromptKind, parts: Parts) -> str:
    forbidden = _bullets(_forbidden(kind, parts))
    return _printable(f"## Conditions\n\n{_conditions(parts)}\n\n## What must not be done\n\n{forbidden}")


# --- what to do now -----------------------------------------------------------------------------------------------


def _first(parts: Parts) -> str:
    return f"Do what the brief below asks. {_end(parts)}"


def _finish(parts: Parts) -> str:
    """Only what is there: a finish prompt that invites more work gets more work."""
    checks = "make sure that the changes hold together (the repository's own formatter, linter and tests)"
    if parts.verify:
        checks = "run the checks named below and repair what they find in these changes"
    commit = "" if parts.expect is Expect.CHANGES else ", then commit the changed files by name (not `git add -A`)"
    return (
        "The work of this brief is already in this folder. Do not start it again, and add nothing of your own. Only "
        f"finish what is there: {checks}{commit}. Then stop."
    )


def _continue(parts: Parts) -> str:
    return (
        "A part of the work of this brief is already in this folder. Look at it first (`git status`, `git diff`, "
        f"`git log`), keep it, and do what is left. {_end(parts)}"
    )


def _confirm(parts: Parts) -> str:
    return (
        "Work for this brief is already committed in this folder, but the run that made it did not say that it was "
        "done. Compare it with the brief. Do what is left; if nothing is left, change nothing and say so. "
        f"{_end(parts)}"
    )


def _approved(parts: Parts) -> str:
    answer = parts.note.strip() or "It may run now."
    return (
        "A call of yours was waiting for a person, and the person has answered:\n\n"
        f"{_cut(answer, _NOTE)}\n\nGo on at that call, once, and then with the brief. {_end(parts)}"
    )


_TASK: Mapping[PromptKind, Callable[[Parts], str]] = {
    PromptKind.FIRST: _first,
    PromptKind.FINISH: _finish,
    PromptKind.CONTINUE: _continue,
    PromptKind.CONFIRM: _confirm,
    PromptKind.APPROVED: _approved,
}


def _end(parts: Parts) -> str:
    """What proves it done."""
    match parts.expect:
        case Expect.REPORT:
            return "Change nothing: your last message is the result, so put the whole report there."
        case Expect.CHANGES:
            return "Leave the changes in the folder; they need no commit."
        case Expect.COMMIT:
            return "It is done when the changes are committed on the current branch, file by file by name."


# --- what is there, what is left ----------------------------------------------------------------------------------


def _there(evidence: Evidence | None) -> list[str]:
    if evidence is None:
        return []
    commits = [f"{commit.sha[:10]} {commit.subject}" for commit in evidence.commits]
    files = list(dict.fromkeys((*evidence.files, *evidence.dirty)))
    lists = (
        ("Commits made", commits),
        ("Files touched", files),
        ("Tests among them", [name for name in files if _TEST_FILE.search(name)]),
        ("Changed but not committed", list(evidence.dirty)),
        ("Repositories inside this folder: not part of it, do not add them", list(evidence.nested)),
    )
    text = "\n\n".join(f"{title}:\n{_bullets(_some(names))}" for title, names in lists if names)
    return [f"## What is there\n\n{text}"] if text else []


def _elsewhere(parts: Parts) -> list[str]:
    """Work that was kept but is not here: whoever is not told writes all of it again."""
    if parts.salvaged is None:
        return []
    repository, ref = (shlex.quote(word) for word in parts.salvaged)
    return [
        "## Earlier work\n\nAn earlier run worked on this brief. The folder does not hold its work any more; all of it "
        f"is kept on `{ref}`. Do not write it again: `git fetch {repository} {ref}`, look at `git diff HEAD "
        "FETCH_HEAD`, take over what is good (`git checkout FETCH_HEAD -- <paths>`), then do what is left."
    ]


def _left(kind: PromptKind, parts: Parts) -> list[str]:
    """From the worker's own list, its last words, the checks that failed, and what the verdict noted."""
    pieces: list[str] = []
    if parts.note.strip() and kind is not PromptKind.APPROVED:  # there the note is the answer, given above
        pieces.append(_cut(parts.note.strip(), _NOTE))
    pieces += _failed(parts)
    if parts.previous is not None and parts.previous.todo:
        pieces.append(f"Open in the list of the earlier run:\n{_bullets(_some(parts.previous.todo))}")
    if parts.previous is not None and parts.previous.final_text.strip():
        quoted = _cut(parts.previous.final_text.strip(), _TEXT).replace("\n", "\n> ")
        pieces.append(f"The last words of the earlier run (they may be wrong; the files decide):\n> {quoted}")
    return ["## What is left\n\n" + "\n\n".join(pieces)] if pieces else []


def _failed(parts: Parts) -> list[str]:
    """Of a hidden check only that it failed: neither its command nor its output."""
    pieces: list[str] = []
    for result in parts.failed_checks:
        if result.passed or result.red_before:
            continue
        if result.hidden:
            pieces.append("A hidden check failed.")
        elif result.command not in parts.note:
            output = _cut(result.output.strip(), _OUTPUT)
            pieces.append(f"The check `{result.command}` failed (exit code {result.exit_code}):\n{output}")
    return [piece for piece in dict.fromkeys(pieces) if piece not in parts.note]


# --- conditions ---------------------------------------------------------------------------------------------------


def _conditions(parts: Parts) -> str:
    lines: list[str] = []
    if parts.verify:
        lines.append("These commands are run on your work afterwards; run them yourself first: " + _codes(parts.verify))
    if parts.touch:
        lines.append(f"Only files that match these patterns may change: {_codes(parts.touch)}")
    if parts.timeout_binary:
        lines.append(f"To bound a command in time, use `{parts.timeout_binary}`; it exists, so make no substitute.")
    else:
        lines.append("There is no `timeout` program here; make no substitute for it.")
    lines += parts.rules
    return _bullets(lines)


def _forbidden(kind: PromptKind, parts: Parts) -> list[str]:
    where = f" ({parts.copy})" if parts.copy else ""
    lines = [f"Work only in this folder{where}; never copy the repository elsewhere."]
    if parts.expect is Expect.COMMIT:
        lines.append("No `git add -A` or `git add .`: add files by name. Never skip hooks or signing.")
    lines.append("Do not push, and do not rewrite, reset or stash what is there.")
    lines.append("Leave nothing running in the background when you end.")
    if kind is not PromptKind.FIRST:
        lines.append("Do not do again what is already done, and do not throw it away.")
    return lines


# --- text ---------------------------------------------------------------------------------------------------------


def _neutral(text: str) -> str:
    r"""`@path` words become `\@path`, with one sentence that says so."""
    changed, count = _ATTACHES.subn(r"\\@", text)
    return changed if not count else "(In the text below `\\@` stands for a plain at sign.)\n\n" + changed


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _codes(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _some(names: Sequence[str]) -> list[str]:
    shown = [_cut(name, 300) for name in names[:_NAMES]]
    return shown if len(names) <= _NAMES else [*shown, f"and {len(names) - _NAMES} more (`git status` shows them)"]


def _printable(text: str) -> str:
    """File names and outputs may hold any bytes; a prompt is UTF-8 without escape sequences."""
    return _UNPRINTABLE.sub("", _encodable(text))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str, limit: int) -> str:
    """Head and tail, and how much is missing."""
    if len(text) <= limit:
        return text
    marker = f"\n[... {len(text)} characters, the middle is left out ...]\n"
    room = max(limit - len(marker), 0)
    tail = room // 3
    return (text[: room - tail] + marker + (text[-tail:] if tail else ""))[:limit]
