"""What a task copy has, and what it has not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dispatcher.errors import RepositoryError
from dispatcher.repository import copies, evidence
from dispatcher.repository import git as git_room
from dispatcher.task import CopyMode
from tests.repository.kit import commit, git, init, script, start, write


def test_uncommitted_changes_of_the_target_stay_where_they_are(target: Path, copy: Path) -> None:
    write(target, "a.txt", "a person is here\n")
    write(target, "notes.txt")
    task = start(target, copy)
    assert (task.copy / "a.txt").read_text() == "one\n"
    assert not (task.copy / "notes.txt").exists()
    assert (target / "a.txt").read_text() == "a person is here\n"


def test_the_base_is_pinned_and_survives_the_targets_gc(target: Path, copy: Path) -> None:
    git(target, "checkout", "-qb", "side")
    commit(target, "b.txt")
    task = start(target, copy)
    git(target, "checkout", "-q", "main")
    git(target, "branch", "-D", "side")
    git(target, "reflog", "expire", "--expire=now", "--all")
    git(target, "gc", "-q", "--prune=now")
    assert git(target, "rev-parse", "refs/dispatcher/task-7/base") == task.base.base
    git(task.copy, "show", "HEAD:b.txt")
    assert task.look().error is None


@pytest.mark.parametrize(
    ("base", "branch"), [("release", "release"), ("v1", "dispatcher-work"), ("HEAD~1", "dispatcher-work")]
)
def test_a_base_of_the_brief(target: Path, copy: Path, base: str, branch: str) -> None:
    wanted = git(target, "rev-parse", "HEAD")
    git(target, "branch", "release")
    git(target, "tag", "-am", "annotated", "v1")
    commit(target, "b.txt")
    task = start(target, copy, base=base)
    assert (task.info.base_sha, task.info.branch, task.info.detached) == (wanted, branch, False)
    assert git(task.copy, "rev-parse", "--abbrev-ref", "HEAD") == branch
    assert not (task.copy / "b.txt").exists()


def test_a_base_that_is_none(target: Path, copy: Path) -> None:
    with pytest.raises(RepositoryError, match="no commit called nope"):
        start(target, copy, base="nope")
    with pytest.raises(RepositoryError, match="no commit called --help"):
        start(target, copy, base="--help")
    assert not copy.exists()


def test_branches_tags_and_remotes_read_as_in_the_target(target: Path, copy: Path) -> None:
    git(target, "tag", "-am", "annotated", "v1")
    git(target, "branch", "side")
    git(target, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(target, "remote", "add", "origin", "https://pat:secret@example.org/shop.git")
    git(target, "remote", "add", "up", "ssh://git@example.org/up.git")
    task = start(target, copy)
    assert git(task.copy, "describe", "--tags") == "v1"
    assert git(task.copy, "branch", "-a", "--format=%(refname:short)").split() == ["main", "side", "origin/main"]
    assert git(task.copy, "remote", "get-url", "origin") == "https://example.org/shop.git"
    assert git(task.copy, "remote", "get-url", "up") == "ssh://git@example.org/up.git"
    assert "secret" not in (task.copy / ".git" / "config").read_text()
    assert "push.default" in git(task.copy, "push", ok=False) or "nothing" in git(task.copy, "push", ok=False)
    git(task.copy, "fsck", "--strict")


def test_the_targets_own_settings_reach_the_worker_and_its_programs_do_not_reach_us(target: Path, copy: Path) -> None:
    for key, value in {
        "user.name": 'A "quoted" \\ name',
        "user.email": "own@example.org",
        "core.autocrlf": "input",
        "filter.x.clean": "cat",
        "http.extraHeader": "Authorization: secret",
        "core.fsmonitor": "evil",
        "alias.x": "!evil",
    }.items():
        git(target, "config", key, value)
    task = start(target, copy)
    assert git(task.copy, "config", "user.name") == 'A "quoted" \\ name'
    assert git(task.copy, "config", "core.autocrlf") == "input"
    assert git(task.copy, "config", "filter.x.clean") == "cat"
    local = git(task.copy, "config", "--local", "--list")
    assert not any(word in local for word in ("secret", "evil"))
    assert any("filter 'x'" in note for note in task.info.notes)
    commit(task.copy)
    assert git(task.copy, "log", "-1", "--format=%an") == 'A "quoted" \\ name'


def test_hooks_of_the_target_are_the_copys_own(target: Path, copy: Path) -> None:
    script(target / ".git" / "hooks" / "commit-msg", 'echo "hooked" >> "$1"\n')
    write(target, ".git/hooks/pre-push.sample")
    task = start(target, copy)
    commit(task.copy)
    assert "hooked" in git(task.copy, "log", "-1", "--format=%B")
    assert [p.name for p in (task.copy / ".git" / "hooks").iterdir()] == ["commit-msg"]


def test_a_copy_writes_nothing_into_the_target_but_its_pin(target: Path, copy: Path) -> None:
    before = git(target, "for-each-ref")
    task = start(target, copy)
    commit(task.copy)
    git(task.copy, "branch", "mine")
    after = git(target, "for-each-ref").split("\n")
    assert [line for line in after if line not in before] == [f"{task.base.base} commit\trefs/dispatcher/task-7/base"]


def test_a_target_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    target = init(tmp_path / 'a "b" : c')
    commit(target, "a.txt")
    task = start(target, tmp_path / "copies" / "ö 7")
    commit(task.copy, "b.txt")
    assert task.keep() is not None
    assert task.deliver().branch == "dispatcher/7-fix"


def test_a_folder_inside_the_target_means_the_target(target: Path) -> None:
    commit(target, "deep/er/a.txt")
    assert copies.resolve(target / "deep" / "er").root == target


def test_a_linked_worktree_can_be_the_target(target: Path, copy: Path, tmp_path: Path) -> None:
    git(target, "worktree", "add", "-q", "-b", "side", str(tmp_path / "wt"))
    made = commit(tmp_path / "wt", "b.txt")
    task = start(tmp_path / "wt", copy)
    assert (task.base.base, task.info.branch) == (made, "side")
    commit(task.copy, "c.txt")
    assert git(target, "log", "-1", "--format=%s", task.deliver().branch) == "work"


def test_in_place_is_one_task_at_a_time(target: Path, copy: Path) -> None:
    task = start(target, copy, mode=CopyMode.IN_PLACE)
    assert task.copy == target
    with pytest.raises(RepositoryError, match="belongs to task-7"):
        start(target, copy, mode=CopyMode.IN_PLACE, marker="task-8")
    assert start(target, copy, mode=CopyMode.IN_PLACE).info.reused
    copies.remove(target, target)
    assert start(target, copy, mode=CopyMode.IN_PLACE, marker="task-8").info.path == target
    assert (target / "a.txt").exists()


def test_removing_what_is_no_copy_removes_nothing(target: Path, tmp_path: Path) -> None:
    other = init(tmp_path / "other")
    commit(other, "x.txt")
    with pytest.raises(RepositoryError, match="is not a task copy"):
        copies.remove(other, target)
    assert (other / "x.txt").exists()


def test_a_worktree_needs_a_commit(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(RepositoryError, match="no commit yet"):
        start(init(tmp_path / "fresh"), copy, mode=CopyMode.WORKTREE)


def test_a_copy_folder_that_cannot_be_made(target: Path, tmp_path: Path) -> None:
    write(tmp_path, "file")
    with pytest.raises(RepositoryError, match="cannot be made"):
        start(target, tmp_path / "file" / "7")


def test_instructions_are_those_of_the_base(target: Path) -> None:
    assert copies.instructions(target, None) is None
    assert copies.instructions(target, git(target, "rev-parse", "HEAD")) is None
    write(target, "CLAUDE.md", b"Be \xff brief.\n")
    git(target, "add", "CLAUDE.md")
    base = commit(target, "AGENTS.md", "Use tabs.\n")
    write(target, "AGENTS.md", "changed, not committed\n")
    assert copies.instructions(target, base) == "Use tabs.\n\nBe \ufffd brief."
    git(target, "rm", "-qf", "CLAUDE.md")
    (target / "CLAUDE.md").symlink_to("AGENTS.md")
    git(target, "add", "CLAUDE.md")
    git(target, "commit", "-qm", "a link")
    assert copies.instructions(target, git(target, "rev-parse", "HEAD")) == "Use tabs."


def test_a_copy_is_told_from_one_of_the_same_number(target: Path, copy: Path) -> None:
    """A task of another queue that had the same number left it there."""
    made = start(target, copy, identity="a")
    write(made.copy, "left.txt")
    assert copies.is_anothers(copy, marker="task-7", identity="b")
    assert not copies.is_anothers(copy, marker="task-7", identity="a")
    assert not copies.is_anothers(copy.with_name("8"), marker="task-7", identity="b")
    with pytest.raises(RepositoryError, match=f"{copy} is in the way: it belongs to another task-7"):
        start(target, copy, identity="b")
    assert copies.prepare(target, copy, marker="task-7", identity="a").reused
    assert (copy / "left.txt").exists()


def test_each_task_of_a_number_keeps_a_base_of_its_own(target: Path, tmp_path: Path) -> None:
    one = start(target, tmp_path / "one" / "7", identity="a")
    commit(target, "b.txt")
    two = start(target, tmp_path / "two" / "7", identity="b")
    for task, identity in ((one, "a"), (two, "b")):
        assert git(target, "rev-parse", copies.base_ref("task-7", identity)) == task.base.base
    git(target, "update-ref", copies.base_ref("task-7", "c"), "HEAD~1")
    start(target, tmp_path / "three" / "7", identity="c")
    assert git(target, "rev-parse", copies.base_ref("task-7", "c")) == one.base.base, "never moved"


def test_two_homes_have_worktrees_of_one_repository(target: Path, tmp_path: Path) -> None:
    made = [start(target, tmp_path / home / "7", mode=CopyMode.WORKTREE, identity=home) for home in ("a", "b")]
    commit(made[0].copy, "mine.txt")
    assert [task.info.branch for task in made] == ["dispatcher-work/task-7-a", "dispatcher-work/task-7-b"]
    assert copies.prepare(target, made[0].copy, mode=CopyMode.WORKTREE, marker="task-7", identity="a").reused


def test_a_copy_and_what_is_asked_about_it_take_few_gits(
    target: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start of git costs milliseconds, and a small copy costs little else."""
    asked: list[str] = []
    real = git_room.call

    def counted(arguments: Sequence[str], **named: Any) -> git_room.Result:
        asked.append(arguments[0])
        return real(arguments, **named)

    for room in (git_room, copies):
        monkeypatch.setattr(room, "call", counted)

    def taken() -> list[str]:
        done = list(asked)
        asked.clear()
        return done

    copies.prepare(target, copy, marker="7")
    assert taken() == ["rev-parse", "config", "for-each-ref", "update-ref", "read-tree"]
    base = evidence.snapshot(copy)
    assert taken() == ["config", "status", "for-each-ref"]
    assert evidence.inspect(copy, base, base, target=target).error is None
    assert sorted(taken()) == ["config", "for-each-ref", "ls-files", "status"]
    write(copy, "a.txt", "changed\n")
    assert evidence.inspect(copy, base, base, target=target).insertions == 1
    assert sorted(taken()) == ["config", "diff-files", "for-each-ref", "status"]
    write(copy, "a.txt", "one\n")
    copies.remove(copy, target)
    assert not copy.exists()
    assert sorted(taken()) == ["config", "for-each-ref", "for-each-ref", "status"]
