"""Shapes of repositories and of work that are not a story of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.errors import RepositoryError
from dispatcher.repository import evidence, trace
from dispatcher.repository.evidence import TaskBase
from dispatcher.task import CopyMode, Shape
from tests.repository.kit import Task, commit, git, init, script, start, write


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the worker's git does from here on is traced, as in an attempt."""
    file = tmp_path / "git-trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(file))
    return file


def test_a_commit_in_the_targets_own_checkout_is_named(task: Task, traced: Path) -> None:
    """The worker went to the original folder and committed there: not "no changes", and not to be run again."""
    made = commit(task.target, "b.txt")
    found = task.look(trace=traced, target=task.target)
    assert found.shape is Shape.NOTHING
    assert found.elsewhere == (f"{made} in {task.target}",)


def test_a_persons_commit_in_the_target_is_not_the_workers(
    task: Task, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(task.copy, "status")
    monkeypatch.delenv("GIT_TRACE2_EVENT")
    commit(task.target, "b.txt", subject="a person")
    assert traced.exists()
    found = task.look(trace=traced, target=task.target)
    assert (found.elsewhere, found.commits, found.moved) == ((), (), False)


def test_a_copy_of_the_repository_made_by_the_worker_is_elsewhere(task: Task, traced: Path, tmp_path: Path) -> None:
    """The worker cloned its folder and did the work in there."""
    git(tmp_path, "clone", "-q", str(task.copy), "second")
    made = commit(tmp_path / "second", "b.txt")
    assert task.look(trace=traced).elsewhere == (f"{made} in {tmp_path / 'second'}",)


def test_repositories_that_tests_make_are_not_work(task: Task, traced: Path, tmp_path: Path) -> None:
    """A test suite that commits in scratch repositories must not look like work done in the wrong place."""
    commit(init(tmp_path / "fixture"), "b.txt")
    assert task.look(trace=traced, target=task.target).elsewhere == ()


def test_a_worktree_that_is_gone_again_left_its_commit_in_a_branch_log(
    task: Task, traced: Path, tmp_path: Path
) -> None:
    other = tmp_path / "wt"
    git(task.target, "worktree", "add", "-q", "-b", "side", str(other))
    made = commit(other, "b.txt")
    git(task.target, "worktree", "remove", str(other))
    found = task.look(trace=traced, target=task.target)
    assert [line.split(" ")[0] for line in found.elsewhere] == [made]


def test_work_on_another_branch_or_in_the_stash_is_named(task: Task) -> None:
    git(task.copy, "checkout", "-qb", "side")
    made = commit(task.copy, "b.txt")
    git(task.copy, "checkout", "-q", "main")
    write(task.copy, "a.txt", "hidden\n")
    git(task.copy, "stash", "-q")
    stash = git(task.copy, "rev-parse", "refs/stash")
    git(task.copy, "branch", "backup", "HEAD")  # nothing new on it
    found = task.look()
    assert found.shape is Shape.NOTHING
    assert set(found.elsewhere) == {f"{made} in {task.copy} (branch side)", f"{stash} in {task.copy} (its stash)"}
    assert found.moved


def test_in_place_a_persons_commit_is_told_from_the_workers(
    target: Path, copy: Path, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = start(target, copy, mode=CopyMode.IN_PLACE)
    made = commit(target, "b.txt", subject="worker")
    monkeypatch.delenv("GIT_TRACE2_EVENT")
    old = {"GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    write(target, "c.txt")
    git(target, "add", "c.txt")
    git(target, "commit", "-qm", "person", env=old)
    found = task.look(trace=traced)
    assert [c.sha for c in found.commits] == [made]
    assert any("not this worker's" in note and "person" in note for note in found.notes)


def test_moved_is_read_against_the_start_of_the_attempt(task: Task) -> None:
    write(task.copy, "b.txt", "from the first attempt\n")
    second = evidence.snapshot(task.copy)
    assert task.look().moved
    found = task.look(start=second)
    assert (found.moved, found.shape) == (False, Shape.DIRTY)
    write(task.copy, "b.txt", "from the second attempt\n")
    assert task.look(start=second).moved


def test_a_hook_that_reformats_after_the_commit_leaves_a_dirty_file(target: Path, copy: Path) -> None:
    script(target / ".git" / "hooks" / "post-commit", "echo formatted >> b.txt\n")
    task = start(target, copy)
    commit(task.copy, "b.txt")
    found = task.look()
    assert (found.shape, found.dirty) == (Shape.COMMITS_DIRTY, ("b.txt",))


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_a_sparse_target_gives_a_sparse_copy(target: Path, copy: Path, cone: str) -> None:
    commit(target, "in/x.txt")
    commit(target, "out/y.txt")
    git(target, "sparse-checkout", "set", cone, "in")
    task = start(target, copy)
    assert (task.copy / "in" / "x.txt").exists()
    assert not (task.copy / "out").exists()
    assert task.look().shape is Shape.NOTHING
    commit(task.copy, "in/z.txt")
    assert task.look().files == ("in/z.txt",)
    assert task.keep() is not None
    assert git(task.target, "ls-tree", "-r", "--name-only", task.deliver().branch).split("\n")[-1] == "out/y.txt"


def test_a_shallow_target(target: Path, tmp_path: Path, copy: Path) -> None:
    commit(target, "b.txt")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{target}", "shallow")
    task = start(tmp_path / "shallow", copy)
    assert task.look().shape is Shape.NOTHING
    made = commit(task.copy, "c.txt")
    assert [c.sha for c in task.look().commits] == [made]
    assert git(task.copy, "log", "--format=%s") == "work\nwork"
    assert git(task.target, "log", "--format=%s", task.deliver().branch) == "work\nwork"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_target_of_another_account(target: Path, copy: Path) -> None:
    """git refuses such a repository; we run nothing of it, so a clone is made, with a word about it."""
    for path in [target, *target.rglob("*")]:
        os.chown(path, 4242, 4242, follow_symlinks=False)
    assert "dubious ownership" in git(target, "status", ok=False)
    task = start(target, copy)
    commit(task.copy)  # the copy is ours: the worker's own git works there
    assert task.look().shape is Shape.COMMITS
    with pytest.raises(RepositoryError, match="another account"):
        start(target, copy.with_name("9"), mode=CopyMode.IN_PLACE, marker="task-9")


def _break_index(copy: Path) -> None:
    (copy / ".git" / "index").write_bytes(b"not an index at all, but long enough to be read as one")


def _break_config(copy: Path) -> None:
    (copy / ".git" / "config").write_text("[core\n")


def _break_head(copy: Path) -> None:
    (copy / ".git" / "HEAD").write_text("")


def _break_objects(copy: Path) -> None:
    (copy / ".git" / "objects" / "info" / "alternates").write_text("/nowhere\n")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_break_index, "index file"),
        (_break_config, "bad config line"),
        (_break_head, "not a git repository"),
        (_break_objects, "missing object"),
    ],
)
def test_git_that_fails_is_the_evidence(task: Task, damage: object, words: str) -> None:
    """A failing git command is not "no changes": its own words are kept."""
    assert callable(damage)
    damage(task.copy)
    found = task.look()
    assert found.error is not None
    assert words in found.error
    assert not any(line.startswith(("hint:", "warning:")) for line in found.error.splitlines())


def test_a_copy_that_is_gone_is_the_evidence(task: Task) -> None:
    task.copy.rename(task.copy.with_name("moved"))
    assert "not a git repository" in (task.look().error or "")


def test_a_conflict_in_the_middle_of_a_merge_is_dirty(task: Task) -> None:
    git(task.copy, "checkout", "-qb", "side")
    commit(task.copy, "a.txt", "theirs\n")
    git(task.copy, "checkout", "-q", "main")
    commit(task.copy, "a.txt", "ours\n")
    git(task.copy, "merge", "side", ok=False)
    found = task.look()
    assert found.shape is Shape.COMMITS_DIRTY
    assert found.dirty == ("a.txt",)
    assert task.keep() is not None


def test_kinds_of_files(task: Task) -> None:
    """Links, programs, a type change, a FIFO and a file that nobody may read: told apart, and nothing hangs."""
    write(task.copy, "run.sh").chmod(0o755)
    (task.copy / "link").symlink_to("a.txt")
    os.mkfifo(task.copy / "fifo")
    (task.copy / "a.txt").unlink()
    (task.copy / "a.txt").symlink_to("run.sh")
    found = task.look()
    assert found.dirty == ("a.txt", "link", "run.sh")
    before = evidence.snapshot(task.copy)
    (task.copy / "run.sh").chmod(0o644)
    assert task.look(start=before).moved


def test_lines_are_counted_over_commits_and_work_tree(task: Task) -> None:
    commit(task.copy, "b.txt", "1\n2\n3\n")
    write(task.copy, "b.txt", "1\n2\n")
    write(task.copy, "c.bin", b"\0\1\n\2\n")
    write(task.copy, "d.txt", "no newline at the end")
    found = task.look()
    assert found.files == ("b.txt", "c.bin", "d.txt")
    assert (found.insertions, found.deletions) == (3, 0)


def test_a_change_that_was_committed_and_taken_back_is_no_difference(task: Task) -> None:
    commit(task.copy, "a.txt", "two\n")
    write(task.copy, "a.txt", "one\n")
    found = task.look()
    assert found.shape is Shape.COMMITS_DIRTY
    assert (found.files, found.insertions) == ((), 0)


@given(st.dictionaries(st.binary(min_size=1, max_size=8), st.text(max_size=5)), st.text(max_size=5))
@settings(max_examples=40)
def test_a_base_survives_its_json(dirty: dict[bytes, str], branch: str) -> None:
    base = TaskBase(
        "a" * 40, branch, False, {os.fsdecode(k): v for k, v in dirty.items()}, {"refs/heads/x": "b"}, "/g", 7
    )
    assert TaskBase.from_json(base.to_json()) == base


LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.dictionaries(
            st.sampled_from(["event", "sid", "time", "code", "child_id", "argv", "child_class", "worktree"]),
            st.one_of(
                st.none(),
                st.integers(),
                st.text(max_size=4),
                st.sampled_from(["start", "exit", "child_start", "child_exit", "def_repo", "2026-01-01T00:00:00Z"]),
                st.lists(st.text(max_size=3), max_size=2),
            ),
        ).map(lambda event: json.dumps(event).encode()),
    ),
    max_size=12,
)


@given(LINES)
@settings(max_examples=150)
def test_no_trace_file_is_too_strange_to_read(lines: list[bytes]) -> None:
    assert isinstance(trace.commits(trace.parse(lines)), list)


def test_the_trace_of_a_real_commit(task: Task, traced: Path) -> None:
    commit(task.copy)
    subprocess.run(["git", "commit", "-qm", "nothing"], cwd=task.copy, capture_output=True, check=False)
    made = trace.commits(trace.read(traced))
    assert [(c.name, c.code, c.folder) for c in made] == [("commit", 0, str(task.copy)), ("commit", 1, str(task.copy))]
    assert all(c.ended is not None and c.started <= c.ended for c in made)
