"""How work is kept, delivered and accepted: nothing lost, nothing half done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.errors import GitError, Refused, RepositoryError
from dispatcher.repository import copies, delivery, evidence, messages
from dispatcher.repository.delivery import How, accept_into
from dispatcher.task import Commit, CopyMode
from tests.repository.kit import Task, commit, git, init, script, start, write


def _log(where: Path, what: str) -> list[str]:
    return git(where, "log", "--format=%s", what).split("\n")


# --- keep ---------------------------------------------------------------------------------------------------------


def test_everything_is_kept_on_one_ref(task: Task) -> None:
    """Commits, uncommitted and untracked files, another branch, a stash, and a commit that only a reflog remembers."""
    write(task.copy, "stashed.txt", "s\n")
    git(task.copy, "stash", "-qu")
    git(task.copy, "checkout", "-qb", "side")
    side = commit(task.copy, "side.txt")
    git(task.copy, "checkout", "-q", "main")
    lost = commit(task.copy, "lost.txt")
    git(task.copy, "reset", "-q", "--hard", "HEAD~1")
    made = commit(task.copy, "made.txt")
    write(task.copy, "a.txt", "uncommitted\n")
    write(task.copy, "new.txt", "untracked\n")
    ref = task.keep()
    assert ref is not None
    held = git(task.target, "rev-list", ref).split()
    assert {side, lost, made} <= set(held)
    assert git(task.target, "show", f"{ref}:a.txt") == "uncommitted"
    assert git(task.target, "show", f"{ref}:new.txt") == "untracked"
    assert "s" in git(task.target, "log", "--all", "-m", "--format=", "-p", "--", "stashed.txt")
    assert git(task.copy, "status", "--porcelain") == "M a.txt\n?? new.txt"  # the copy and its index are as they were
    copies.remove(task.copy, task.target)
    git(task.target, "fsck", "--strict")


def test_nothing_to_keep_is_no_ref(task: Task) -> None:
    assert task.keep() is None
    assert [k.ref for k in delivery.kept(task.target)] == ["refs/dispatcher/task-7/base"]


def test_a_clean_copy_with_commits_is_kept_as_its_head(task: Task) -> None:
    made = commit(task.copy)
    ref = task.keep()
    assert ref is not None
    assert git(task.target, "rev-parse", ref) == made


def test_ignored_files_are_listed_in_the_kept_commit(target: Path, copy: Path) -> None:
    commit(target, ".gitignore", "build/\n")
    task = start(target, copy)
    write(task.copy, "build/out.o")
    write(task.copy, "b.txt")
    ref = task.keep()
    message = git(task.target, "log", "-1", "--format=%B", str(ref))
    assert "Ignored, not in here:\nbuild/" in message
    assert "out.o" not in git(task.target, "ls-tree", "-r", "--name-only", str(ref))


def test_keeping_needs_no_identity_and_no_hook(target: Path, copy: Path, home: Path) -> None:
    script(target / ".git" / "hooks" / "pre-commit", "exit 1\n")
    script(target / ".git" / "hooks" / "reference-transaction", "exit 1\n")
    task = start(target, copy)
    (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n[commit]\n\tgpgsign = true\n")
    write(task.copy, "b.txt")
    assert task.keep() == "refs/dispatcher/7/1"


def test_a_copy_with_work_on_no_ref_is_not_removed(task: Task) -> None:
    made = commit(task.copy)
    write(task.copy, "b.txt")
    with pytest.raises(Refused, match="uncommitted changes") as caught:
        copies.remove(task.copy, task.target)
    assert made[:12] in caught.value.message
    task.keep()
    write(task.copy, "b.txt", "and more\n")
    with pytest.raises(Refused, match="uncommitted changes"):
        copies.remove(task.copy, task.target)
    task.keep("2")
    (task.copy / "sealed").mkdir()
    write(task.copy, "sealed/x").parent.chmod(0o500)
    task.keep("3")
    copies.remove(task.copy, task.target)
    assert not task.copy.exists()


def test_private_refs_are_removed_only_as_they_were_shown(task: Task) -> None:
    commit(task.copy)
    task.keep()
    shown = {k.ref: k for k in delivery.kept(task.target)}["refs/dispatcher/7/1"]
    delivery.release_ref(task.target, shown)
    assert "refs/dispatcher/7/1" not in git(task.target, "for-each-ref")
    with pytest.raises(Refused):
        delivery.release_ref(task.target, delivery.Kept("refs/heads/main", shown.sha, 0.0))


def test_two_homes_never_move_each_others_refs(target: Path, tmp_path: Path) -> None:
    """Both count their tasks from 1, and both work on this repository."""
    here = start(target, tmp_path / "here" / "7", identity="a")
    there = start(target, tmp_path / "there" / "7", identity="b")
    mine, theirs = commit(here.copy, "mine.txt"), commit(there.copy, "theirs.txt")
    refs = [here.keep(), there.keep()]
    assert refs == ["refs/dispatcher/7/1", "refs/dispatcher/7/1.2"]
    sent = [here.deliver(owner="7-a"), there.deliver(owner="7-b")]
    assert [s.branch for s in sent] == ["dispatcher/7-fix", "dispatcher/7-fix-2"]
    assert "not this task's own" in sent[1].note
    assert git(target, "rev-parse", *map(str, refs)).split() == [mine, theirs]
    git(there.copy, "commit", "-q", "--amend", "-m", "again")
    assert there.keep() == "refs/dispatcher/7/1.3"
    assert there.deliver(owner="7-b").branch == "dispatcher/7-fix-2", "its own, which it may replace"
    assert git(target, "rev-parse", *map(str, refs), "dispatcher/7-fix").split() == [mine, theirs, sent[0].sha]


def test_a_home_made_again_takes_nothing_over(target: Path, tmp_path: Path) -> None:
    """The copy is deleted, the queue begins anew: the new task 7 finds the refs of the old one, at its very base."""
    old = start(target, tmp_path / "copies" / "7", identity="a")
    made = commit(old.copy, "old.txt")
    assert old.keep() == "refs/dispatcher/7/1"
    left = old.deliver(owner="7-a")
    git(target, "merge", "-q", left.branch)  # even where the old branch is an ancestor of the new one
    copies.delete_tree(old.copy)
    new = start(target, tmp_path / "copies" / "7", identity="b")
    commit(new.copy, "new.txt")
    assert new.keep() == "refs/dispatcher/7/1.2"
    assert new.deliver(owner="7-b").branch == f"{left.branch}-2"
    assert git(target, "rev-parse", "refs/dispatcher/7/1", left.branch).split() == [made, left.sha]


def test_the_same_state_is_kept_once(task: Task) -> None:
    """Settled again after a crash: the same ref, also where the first keeping made a commit of its own."""
    commit(task.copy, "b.txt")
    assert [task.keep(), task.keep()] == ["refs/dispatcher/7/1"] * 2
    git(task.copy, "stash", "-qu")
    write(task.copy, "c.txt", "more\n")
    assert [task.keep(), task.keep()] == ["refs/dispatcher/7/1.2"] * 2
    write(task.copy, "c.txt", "and more\n")
    assert task.keep() == "refs/dispatcher/7/1.3"
    assert git(task.target, "show", "refs/dispatcher/7/1.2:c.txt") == "more"


def test_a_ref_that_git_refuses_is_an_error_in_gits_words(task: Task) -> None:
    commit(task.copy, "b.txt")
    git(task.target, "update-ref", "refs/dispatcher/7", "HEAD")
    with pytest.raises(GitError, match="refs/dispatcher/7"):
        task.keep()


# --- deliver ------------------------------------------------------------------------------------------------------


def test_delivered_commits_carry_trailers_and_the_rest_stays(task: Task) -> None:
    env = {"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org", "GIT_AUTHOR_DATE": "1700000000 +0200"}
    write(task.copy, "b.txt")
    git(task.copy, "add", "b.txt")
    git(task.copy, "commit", "-qm", "one\n\nbody\n\nSigned-off-by: Ann <ann@example.org>", env=env)
    own = commit(task.copy, "c.txt", subject="two")
    sent = task.deliver()
    assert sent.branch == "dispatcher/7-fix"
    first, second = git(task.target, "log", "--reverse", "--format=%B%x00", f"main..{sent.branch}").split("\0")[:2]
    assert first == ("one\n\nbody\n\nSigned-off-by: Ann <ann@example.org>\nDispatcher-Task: 7\nDispatcher-Model: big\n")
    assert second.strip() == "two\n\nDispatcher-Task: 7\nDispatcher-Model: big"
    assert git(task.target, "log", "-1", "--format=%an %ae %ad", "--date=raw", f"{sent.branch}~1") == (
        "Ann ann@example.org 1700000000 +0200"
    )
    trees = {git(task.target, "rev-parse", f"{sent.branch}^{{tree}}"), git(task.copy, "rev-parse", f"{own}^{{tree}}")}
    assert len(trees) == 1
    assert git(task.copy, "rev-parse", "HEAD") == own
    assert git(task.target, "status", "--porcelain") == ""
    assert git(task.target, "rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_each_commit_can_name_its_own_model(task: Task) -> None:
    one, two = commit(task.copy, "b.txt"), commit(task.copy, "c.txt")
    by = {one: {"Dispatcher-Model": "small"}}
    sent = task.deliver(by_commit=by)
    models = git(task.target, "log", "--format=%(trailers:key=Dispatcher-Model,valueonly)", f"main..{sent.branch}")
    assert models.split() == ["big", "small"]
    only = task.deliver("dispatcher/only", commits=[Commit(two, "work")])
    assert "Dispatcher" not in git(task.target, "log", "-1", "--format=%B", f"{only.branch}~1")


def test_a_merge_keeps_its_shape(task: Task) -> None:
    git(task.copy, "checkout", "-qb", "side")
    commit(task.copy, "s.txt", subject="side")
    git(task.copy, "checkout", "-q", "main")
    commit(task.copy, "m.txt", subject="line")
    git(task.copy, "merge", "-q", "-m", "joined", "side")
    sent = task.deliver()
    assert len(git(task.target, "rev-list", "--parents", "-1", sent.branch).split()) == 3
    assert sorted(_log(task.target, f"main..{sent.branch}")) == ["joined", "line", "side"]
    assert (
        git(task.target, "log", "--format=%(trailers:key=Dispatcher-Task,valueonly)", f"main..{sent.branch}").split()
        == ["7"] * 3
    )


def test_delivering_again_replaces_what_we_left_and_never_what_a_person_made(task: Task) -> None:
    commit(task.copy, "b.txt")
    one = task.deliver()
    assert task.deliver() == one
    git(task.copy, "commit", "-q", "--amend", "-m", "better")
    two = task.deliver()
    assert (two.branch, _log(task.target, two.branch)[0]) == (one.branch, "better")
    git(task.target, "checkout", "-q", one.branch)
    three = task.deliver()
    assert three.branch == f"{one.branch}-2"
    assert "checked out" in three.note
    theirs = commit(task.target, "person.txt", subject="a person")
    git(task.target, "checkout", "-q", "main")
    commit(task.copy, "c.txt")
    four = task.deliver()
    assert four.branch == f"{one.branch}-2"
    assert git(task.target, "rev-parse", one.branch) == theirs


def test_signed_commits_are_delivered_as_they_are(task: Task, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    for name, value in {"gpg.format": "ssh", "user.signingKey": str(key), "commit.gpgSign": "true"}.items():
        git(task.copy, "config", name, value)
    made = commit(task.copy)
    sent = task.deliver()
    assert (sent.sha, "without trailers" in sent.note) == (made, True)


def test_changes_that_are_asked_for_uncommitted_are_delivered_as_a_commit(task: Task) -> None:
    write(task.copy, "b.txt", "work\n")
    with pytest.raises(RepositoryError, match="no commit to deliver"):
        task.deliver()
    sent = task.deliver(uncommitted="Changes of task 7")
    assert _log(task.target, sent.branch) == ["Changes of task 7", "first"]
    assert git(task.copy, "status", "--porcelain") == "?? b.txt"


def test_a_branch_that_cannot_be_named_is_an_error_with_gits_words(task: Task) -> None:
    git(task.target, "branch", "dispatcher")
    commit(task.copy)
    with pytest.raises(RepositoryError, match="dispatcher"):
        task.deliver()


def test_lfs_content_travels_with_the_delivery(task: Task) -> None:
    stored = "lfs/objects/ab/cd/abcd"
    write(task.copy, f".git/{stored}", "content")
    commit(task.copy)
    task.deliver()
    assert (task.target / ".git" / stored).read_text() == "content"


@given(st.binary(max_size=60), st.text(alphabet="ab c\n", max_size=10))
@settings(max_examples=150)
def test_trailers_are_added_once_and_nothing_else_changes(message: bytes, value: str) -> None:
    once = messages.with_trailers(message, {"Dispatcher-Task": value})
    assert once.startswith(message.rstrip(b"\n "))
    assert messages.with_trailers(once, {"Dispatcher-Task": value}) == once
    assert (b"Dispatcher-Task: " + " ".join(value.split()).encode() in once) == bool(value.split())


# --- accept -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sent(task: Task) -> delivery.Delivered:
    commit(task.copy, "b.txt", "1\n", "first step")
    commit(task.copy, "c.txt", "2\n", "second step")
    return task.deliver()


def test_a_fast_forward_moves_a_clean_checkout_along(task: Task, sent: delivery.Delivered) -> None:
    done = accept_into(task.target, sent.branch, into="main", how=How.FF)
    assert done.sha == sent.sha
    assert git(task.target, "rev-parse", "main") == sent.sha
    assert (task.target / "c.txt").read_text() == "2\n"
    assert git(task.target, "status", "--porcelain") == ""
    assert "accepted" in git(task.target, "reflog", "-1", "main")
    assert "already" in accept_into(task.target, sent.branch, into="main").note


@pytest.mark.parametrize("how", [How.MERGE, How.SQUASH])
def test_a_moved_main_is_merged_or_squashed(task: Task, sent: delivery.Delivered, how: How) -> None:
    moved = commit(task.target, "person.txt", subject="a person")
    with pytest.raises(Refused, match="has moved"):
        accept_into(task.target, sent.branch, into="main", how=How.FF)
    done = accept_into(task.target, sent.branch, into="main", how=how)
    parents = git(task.target, "log", "-1", "--format=%P", "main").split()
    assert parents == ([moved, sent.sha] if how is How.MERGE else [moved])
    assert {p.name for p in task.target.iterdir()} == {".git", "a.txt", "b.txt", "c.txt", "person.txt"}
    assert git(task.target, "status", "--porcelain") == ""
    text = git(task.target, "log", "-1", "--format=%B", done.sha)
    if how is How.SQUASH:
        assert text == "first step\n\n* first step\n* second step\n\nDispatcher-Task: 7\nDispatcher-Model: big"
    assert git(task.target, "log", "-1", "--format=%an") == "Pat"


def test_a_branch_that_is_nowhere_checked_out_needs_no_work_tree(task: Task, sent: delivery.Delivered) -> None:
    git(task.target, "branch", "release")
    write(task.target, "a.txt", "a person is in the middle of something\n")
    accept_into(task.target, sent.branch, into="release", how=How.MERGE)
    assert git(task.target, "show", "release:c.txt") == "2"
    assert (task.target / "a.txt").read_text() == "a person is in the middle of something\n"
    assert not (task.target / "c.txt").exists()


def _state(target: Path) -> tuple[str, str, str]:
    files = "".join(f"{p.name}:{p.read_text()}" for p in sorted(target.glob("*.txt")))
    return git(target, "rev-parse", "main"), git(target, "status", "--porcelain"), files


def _dirty(target: Path) -> None:
    write(target, "a.txt", "half done\n")


def _staged(target: Path) -> None:
    write(target, "n.txt", "half done\n")
    git(target, "add", "n.txt")


def _in_the_way(target: Path) -> None:
    write(target, "c.txt", "untracked, and of the same name\n")


def _conflict(target: Path) -> None:
    commit(target, "b.txt", "another one\n")


def _busy(target: Path) -> None:
    (target / ".git" / "MERGE_HEAD").write_text(git(target, "rev-parse", "HEAD") + "\n")


def _locked(target: Path) -> None:
    (target / ".git" / "index.lock").touch()


def _ref_locked(target: Path) -> None:
    (target / ".git" / "refs" / "heads" / "main.lock").touch()


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (_dirty, "with changes: a.txt"),
        (_staged, "with changes: n.txt"),
        (_in_the_way, "c.txt"),
        (_conflict, "conflicts with main: b.txt"),
        (_busy, "in the middle of something"),
        (_locked, "index.lock"),
        (_ref_locked, "main.lock"),
    ],
)
def test_what_cannot_be_accepted_changes_nothing(
    task: Task, sent: delivery.Delivered, trouble: object, words: str
) -> None:
    """All or nothing: branch, index and files are as before, whichever step refuses."""
    assert callable(trouble)
    trouble(task.target)
    before = _state(task.target)
    with pytest.raises((Refused, RepositoryError), match=words):
        accept_into(task.target, sent.branch, into="main", how=How.MERGE)
    assert _state(task.target) == before


def test_a_linked_worktree_that_has_the_branch_is_moved_along(
    task: Task, sent: delivery.Delivered, tmp_path: Path
) -> None:
    other = tmp_path / "wt"
    git(task.target, "worktree", "add", "-q", "-b", "release", str(other))
    done = accept_into(task.target, sent.branch, into="release", how=How.FF)
    assert str(other) in done.note
    assert (other / "c.txt").exists()
    write(other, "a.txt", "dirty\n")
    commit(task.copy, "d.txt")
    with pytest.raises(Refused, match=str(other)):
        accept_into(task.target, task.deliver().branch, into="release", how=How.FF)


def test_names_that_do_not_exist(task: Task, sent: delivery.Delivered) -> None:
    with pytest.raises(RepositoryError, match="no branch called nope"):
        accept_into(task.target, sent.branch, into="nope")
    with pytest.raises(RepositoryError, match="no commit called nope"):
        accept_into(task.target, "nope", into="main")


def test_a_merge_needs_somebody_to_be_its_author(task: Task, sent: delivery.Delivered, home: Path) -> None:
    commit(task.target, "person.txt")
    (home / ".gitconfig").write_text("")
    before = git(task.target, "rev-parse", "main")
    with pytest.raises(Refused, match=r"user\.name"):
        accept_into(task.target, sent.branch, into="main", how=How.MERGE)
    assert git(task.target, "rev-parse", "main") == before


def test_files_of_a_filter_are_not_written_into_a_persons_checkout(task: Task, sent: delivery.Delivered) -> None:
    """The filter is a program and is not run; writing the stored form into the checkout would break it."""
    git(task.target, "config", "filter.crypt.smudge", "rot13")
    write(task.target, ".git/info/attributes", "c.txt filter=crypt\n")
    before = _state(task.target)
    with pytest.raises(Refused, match=r"a filter is needed for c\.txt"):
        accept_into(task.target, sent.branch, into="main", how=How.FF)
    assert _state(task.target) == before


def test_a_sha256_repository_all_the_way(tmp_path: Path, copy: Path) -> None:
    target = init(tmp_path / "s", "--object-format=sha256")
    commit(target, "a.txt", "one\n")
    task = start(target, copy)
    commit(task.copy, "b.txt")
    write(task.copy, "a.txt", "two\n")
    assert task.keep() is not None
    sent = task.deliver()
    assert len(sent.sha) == 64
    accept_into(target, sent.branch, into="main", how=How.FF)
    assert (target / "b.txt").exists()


def test_a_worktree_is_kept_delivered_and_removed(target: Path, copy: Path) -> None:
    task = start(target, copy, mode=CopyMode.WORKTREE)
    made = commit(task.copy)
    write(task.copy, "b.txt")
    found = task.look(target=target)
    assert ([c.sha for c in found.commits], found.dirty) == ([made], ("b.txt",))
    sent = task.deliver()
    ref = task.keep()
    assert git(target, "show", f"{ref}:b.txt") == "text"
    copies.remove(task.copy, target)
    assert git(target, "branch", "--format=%(refname:short)").split() == [sent.branch, "main"]
    assert evidence.inspect(task.copy, task.base).error is not None
