"""No program that a repository names ever runs while we look at it, copy it, keep it, deliver it or accept it.

Everything that git can be told to run is planted, in the target and in the copy, each writing to one canary file. A
control shows that the traps work: a person's own git does set them off.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.repository import copies, delivery, evidence
from dispatcher.repository.delivery import How
from dispatcher.repository.git import ENVIRONMENT, OPTIONS, layout, view
from dispatcher.task import CopyMode
from tests.repository.kit import Task, commit, git, script, write

HOOKS = """applypatch-msg pre-applypatch post-applypatch pre-commit prepare-commit-msg commit-msg post-commit pre-rebase
post-checkout post-merge pre-push pre-receive update post-receive post-update reference-transaction push-to-checkout
pre-auto-gc post-rewrite post-index-change fsmonitor-watchman pre-merge-commit proc-receive"""


def _plant(root: Path, trap: Path) -> None:
    config = {
        "core.fsmonitor": trap,
        "core.pager": trap,
        "core.editor": trap,
        "core.askPass": trap,
        "core.sshCommand": trap,
        "core.gitProxy": trap,
        "core.alternateRefsCommand": trap,
        "core.hooksPath": root / ".git" / "planted",
        "diff.external": trap,
        "diff.evil.command": trap,
        "diff.evil.textconv": trap,
        "filter.evil.clean": trap,
        "filter.evil.smudge": trap,
        "filter.proc.process": trap,
        "filter.proc.required": "true",
        "merge.evil.driver": f"{trap} %A",
        "merge.default": "evil",
        "gpg.program": trap,
        "gpg.ssh.program": trap,
        "commit.gpgSign": "true",
        "log.showSignature": "true",
        "credential.helper": f"!{trap}",
        "alias.status": f"!{trap}",
        "alias.update-ref": f"!{trap}",
        "trailer.x.cmd": trap,
        "uploadpack.packObjectsHook": trap,
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.uploadpack": trap,
        "remote.origin.promisor": "true",
        "sequence.editor": trap,
        "interactive.diffFilter": trap,
        "pager.log": trap,
        "pager.status": trap,
    }
    for key, value in config.items():
        git(root, "config", key, str(value), env={"GIT_DIR": str(root / ".git")})
    for name in HOOKS.split():
        for folder in ("planted", "hooks"):
            script(root / ".git" / folder / name, f"exec {trap}\n")
    write(root, ".git/info/attributes", "*.txt diff=evil filter=evil merge=evil\n*.p filter=proc\n")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def trap(tmp_path: Path, canary: Path) -> Path:
    return script(tmp_path / "trap", f'echo "$0 $*" >> {canary}\ncat\n')


def test_the_traps_work(target: Path, trap: Path, canary: Path) -> None:
    """The control: git as a person runs it sets them off."""
    _plant(target, trap)
    write(target, "a.txt", "changed\n")
    git(target, "diff", ok=False)
    git(target, "add", "a.txt", ok=False)
    assert canary.exists()


@pytest.mark.parametrize("mode", [CopyMode.CLONE, CopyMode.WORKTREE])
def test_no_code_of_a_repository_runs(target: Path, copy: Path, trap: Path, canary: Path, mode: CopyMode) -> None:
    commit(target, "b.p", "two\n")
    base = git(target, "rev-parse", "HEAD")
    git(target, "branch", "other")
    commit(target, "a.txt", "main goes on\n", "person")
    _plant(target, trap)
    info = copies.prepare(target, copy, base=base, mode=mode, marker="task-7")
    task = Task(target, copy, info, evidence.snapshot(copy))
    assert copies.instructions(copy, base) is None
    assert not canary.exists()

    _work(task, canary)
    if mode is CopyMode.CLONE:
        _plant(copy, trap)
        git(copy, "config", "core.worktree", "/")
    write(copy, "a.txt", "uncommitted\n")
    write(copy, "c.txt", "untracked\n")
    write(copy, "b.p", "changed\n")
    found = task.look(target=target)
    assert found.error is None
    assert set(found.dirty) == {"a.txt", "b.p", "c.txt"}
    assert evidence.snapshot(copy).dirty
    delivery.clear_stale_lock(copy)
    assert task.keep() is not None
    _accept(task)
    delivery.kept(target)
    copies.resolve(target)
    copies.remove(copy, target)
    assert not canary.exists()


def _work(task: Task, canary: Path) -> None:
    """The worker commits. Its own git may set off the traps of the target (in a worktree): that is not ours."""
    write(task.copy, "new.txt", "work\n")
    plain = [word for key, value in OPTIONS for word in ("-c", f"{key}={value}")]
    with view(layout(task.copy)) as seen:
        seen.run("update-index", "--add", "new.txt")
        tree = seen.run("write-tree").text
        who = {f"GIT_{w}_{k}": "w" for w in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")}
        made = seen.run("commit-tree", tree, "-p", "HEAD", stdin=b"work\n", env=who).text
    env = {**ENVIRONMENT, "GIT_DIR": str(layout(task.copy).git_dir)}
    git(task.copy, *plain, "update-ref", "HEAD", made, env=env)
    canary.unlink(missing_ok=True)


def _accept(task: Task) -> None:
    """Into a branch that is nowhere checked out, and into the one that the (planted) target has checked out."""
    sent = task.deliver()
    delivery.accept_into(task.target, sent.branch, into="other", how=How.FF)
    merged = delivery.accept_into(task.target, sent.branch, into="other", how=How.MERGE)
    assert "already" in merged.note
    delivery.diffstat(task.target, task.base.base, sent.sha)
    (task.target / ".git" / "info" / "attributes").write_text("*.txt diff=evil merge=evil\n")  # no filter: see refusal
    done = delivery.accept_into(task.target, sent.branch, into="main", how=How.MERGE)
    assert (task.target / "new.txt").read_text() == "work\n"
    assert "moved along" in done.note


def test_nothing_is_inherited_from_our_own_environment(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: Path, canary: Path
) -> None:
    """GIT_DIR and the like, as a hook or a worker that calls us would leave them."""
    traced = tmp_path / "traced"
    for name, value in {
        "GIT_DIR": "/nowhere",
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": "/nowhere/index",
        "GIT_EXTERNAL_DIFF": str(trap),
        "GIT_TRACE2_EVENT": str(traced),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap),
    }.items():
        monkeypatch.setenv(name, value)
    write(task.copy, "b.txt")
    assert task.look().dirty == ("b.txt",)
    assert copies.resolve(task.target).root == task.target
    assert task.keep() is not None
    assert not canary.exists()
    assert not traced.exists()


def test_a_git_folder_that_was_swapped_is_evidence_of_trouble(task: Task) -> None:
    """A worker that points .git at the target would have its commits judged against somebody else's HEAD."""
    (task.copy / ".git").rename(task.copy / "old")
    (task.copy / ".git").write_text(f"gitdir: {task.target / '.git'}\n")
    found = task.look()
    assert found.error is not None
    assert "not the git folder" in found.error
