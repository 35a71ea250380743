"""`add`: briefs into the queue. All are read before the first is queued, so a mistake in one loses nothing."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import brief as briefs
from dispatcher.cli import grading, home, places
from dispatcher.cli.briefs import refuse_bad_rules, refuse_unfilled, refuse_unknown_candidates
from dispatcher.cli.progress import counted
from dispatcher.cli.render import clean, json_out, note, out
from dispatcher.config import regular
from dispatcher.errors import BadInput, BriefError, DispatcherError, NotFound, refusal
from dispatcher.store import queue
from dispatcher.task import Expect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dispatcher.config import Config
    from dispatcher.store import Store

STDIN = "-"
_README = "readme.md"  # of a folder of briefs: for people, not a brief


def add_briefs(
    names: Sequence[str],
    explicit: Path | None,
    repo: Path | None,
    *,
    batch: str | None,
    again: bool,
    as_json: bool,
) -> None:
    config = home.configured(explicit)
    given = places.checked(repo, "--repo") if repo is not None else None
    found = list(sources(names))
    tasks, circle = in_order([read(source, config, given) for source in counted(found, "briefs read", len(found))])
    if circle:
        raise BadInput(_turning(circle), hint="correct `after` in one of them")
    with home.opened(config.home) as store, store.write():
        named = batch or (batch_name(names) if len(tasks) > 1 else None)
        known: dict[str, int] = {}
        added = [
            _queue(store, brief, named, known, again=again) for brief in counted(tasks, "briefs queued", len(tasks))
        ]
    if as_json:
        return json_out(added)
    for row in added:
        out(_line(row))
    return None


def batch_name(names: Sequence[str]) -> str:
    """What is queued by one command belongs together: the folder's name and the time."""
    first = Path(names[0]).absolute().name if names[0] != STDIN else "stdin"
    return f"{first.removesuffix('.md') or 'briefs'}-{time.strftime('%Y%m%d-%H%M%S')}"


def add_new(names: Sequence[str], config: Config, store: Store, batch: str | None = None) -> bool:
    """`run --add`: queue what is new, which may be nothing. What is wrong is said and stops no other; False then."""
    wrong, tasks, known = list[DispatcherError](), list[Ready](), dict[str, int]()
    batch = batch or batch_name(names)
    for name in names:
        with _said(wrong):
            for source in _meant_by(name):
                with _said(wrong):
                    tasks.append(read(source, config, None))
    ordered, circle = in_order(tasks)
    if circle:
        with _said(wrong):
            raise BadInput(_turning(circle))
    for task in ordered:
        with _said(wrong):
            row = _queue(store, task, batch, known, again=False)
            if row["how"] != "exists":
                note(_line(row))
    return not wrong


@contextmanager
def _said(wrong: list[DispatcherError]) -> Iterator[None]:
    try:
        yield
    except (DispatcherError, OSError) as error:
        said = error if isinstance(error, DispatcherError) else refusal(error)
        if said is None:
            raise
        note(f"error: {clean(said.message)}")
        wrong.append(said)


def sources(names: Sequence[str]) -> Iterator[Path | None]:
    """The files that the arguments mean, in order; None is stdin."""
    for name in names:
        found = _meant_by(name)
        if not found:
            raise BadInput(f"there is no brief (*.md) in {name}", hint="write one with: dispatcher new TITLE")
        yield from found


def _meant_by(name: str) -> list[Path | None]:
    """Of a folder its briefs, which may be none. Hidden files are what editors and other machines leave there."""
    if name == STDIN:
        return [None]
    path = Path(name)
    if not path.is_dir():
        return [path]
    return [*sorted(file for file in path.iterdir() if _is_brief(file.name))]


def _is_brief(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".") and name.lower() != _README


@dataclass(frozen=True)
class Ready:
    """A brief that can be queued. Which tasks `after` means is looked up then: they may stand in the same folder."""

    new: queue.NewTask
    label: str
    after: tuple[str, ...]
    after_accepted: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """What another brief of the same add may call it."""
        path = Path(self.new.brief_path) if self.new.brief_path else None
        files = () if path is None else (path.name, path.stem, str(path))
        return frozenset({self.new.title, *files})


def in_order(tasks: Sequence[Ready]) -> tuple[list[Ready], list[Ready]]:
    """The same briefs, each behind those that it comes after, as they were; and those that turn in a circle."""
    if not any(one.after or one.after_accepted for one in tasks):
        return list(tasks), []
    left, done = list(tasks), list[Ready]()
    while left:
        free = next((one for one in left if not any(_needs(one, other) for other in left if other is not one)), None)
        if free is None:
            break
        left.remove(free)
        done.append(free)
    return done, left


def _turning(circle: Sequence[Ready]) -> str:
    return f"these briefs wait for each other: {', '.join(one.label for one in circle)}"


def _needs(task: Ready, other: Ready) -> bool:
    return not other.names.isdisjoint((*task.after, *task.after_accepted))


def read(source: Path | None, config: Config, repo: str | None) -> Ready:
    """One brief, checked, with its difficulty and repository."""
    label = "stdin" if source is None else str(source)
    text = _text(source, label)
    brief = briefs.parse(text, file=label, new=True)
    refuse_unfilled(brief.body, label)
    refuse_bad_rules(brief, label)
    refuse_unknown_candidates(brief, config, label)
    level, reason = grading.difficulty_of(brief, config, None if source is None else label)
    target = _repository(brief.repo, source, repo, config, label)
    if target is None and brief.expect is not Expect.REPORT:
        raise BadInput(
            f"{label}: which repository is it for?",
            hint="name it with --repo or `repo:`, start inside it, or ask for a text with `expect: report`",
        )
    new = queue.NewTask(
        title=brief.title,
        brief_text=text,
        brief_path=None if source is None else str(source.absolute()),
        repository=target,
        difficulty=level,
        difficulty_reason=reason,
        expect=brief.expect,
        priority=brief.priority,
        source=home.source(),
    )
    return Ready(new, label, brief.after, brief.after_accepted)


def _text(source: Path | None, label: str) -> str:
    try:
        data = sys.stdin.buffer.read(regular.LARGEST + 1) if source is None else regular.read(source)
    except OSError as error:
        hint = "correct the path; a brief that comes through a pipe is added with -"
        raise BriefError(f"cannot be read: {error.strerror}", file=label, hint=hint) from None
    if len(data) > regular.LARGEST:
        raise BriefError("is larger than 4 MiB", file=label)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BriefError("is not UTF-8", file=label, line=line, hint="save it as UTF-8") from None


def _repository(said: str | None, source: Path | None, option: str | None, config: Config, label: str) -> str | None:
    """The brief's, else --repo, else the default of models.yaml, else the one that holds the current folder."""
    if said is not None:
        if said == places.NONE:
            return None
        base = Path.cwd() if source is None else source.absolute().parent
        return places.checked(base / Path(said).expanduser(), f"{label}: repo")
    if option is not None:
        return option
    if config.default_repository is not None:
        return places.checked(Path(config.default_repository), "models.yaml: defaults.repo")
    return places.here()


def _queue(store: Store, ready: Ready, batch: str | None, known: dict[str, int], *, again: bool) -> dict[str, Any]:
    """`known`: the tasks of this add by their names, in which `after` is looked up first; this one is put there too."""
    after = tuple(_meant(store, ready, name, known) for name in ready.after)
    accepted = tuple(_meant(store, ready, name, known) for name in ready.after_accepted)
    new = replace(ready.new, after=after, after_accepted=accepted, batch=batch)
    added = queue.add(store, new, time.time(), again=again, by=home.person())
    task = added.task
    known |= {name: task.id for name in ready.names - known.keys()}
    return {
        "id": task.id,
        "how": added.how,
        "title": task.title,
        "status": str(task.status),
        "batch": task.batch,
        "difficulty": str(task.difficulty),
        "difficulty_reason": task.difficulty_reason,
        "repository": task.repository,
        "after": [*after, *accepted],
    }


def _meant(store: Store, ready: Ready, name: str, known: dict[str, int]) -> int:
    if name in known and not name.isdigit():
        return known[name]
    try:
        return queue.find(store, name).id
    except NotFound as error:
        raise NotFound(f"{ready.label}: {error.message}, which it comes after", hint=error.hint) from None


def _line(row: dict[str, Any]) -> str:
    title = clean(row["title"])
    if row["how"] == "exists" and row["status"] in ("queued", "waiting", "running", "paused"):
        return f"already there as task {row['id']} ({row['status']}): {title}"
    if row["how"] == "exists":
        return f"done as task {row['id']} ({row['status']}): {title}  (--again queues it anew)"
    why = clean(row["difficulty_reason"])
    after = f"  after {', '.join(map(str, row['after']))}" if row["after"] else ""
    return f"task {row['id']} {row['how']}: {title}  [{row['difficulty']}: {why}]{after}"
