"""Stories from the field, each on a real repository."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.errors import GitError, Refused, RepositoryError
from dispatcher.repository import copies, delivery, evidence
from dispatcher.repository.git import layout, view
from dispatcher.task import CopyMode, Shape
from tests.repository.kit import Task, commit, git, init, script, start, write


@pytest.mark.parametrize("name", ["a.txt", "new/module.py"])
def test_90_files_are_written_and_the_commit_is_forgotten(task: Task, name: str) -> None:
    """Only HEAD was compared, so a run that wrote everything and did not commit was called "no changes"."""
    write(task.copy, name, "work\n")
    found = task.look()
    assert found.shape is Shape.DIRTY
    assert found.dirty == (name,)
    assert found.head == task.base.base
    assert found.moved


def test_92_the_successor_can_be_told_where_the_work_is(task: Task) -> None:
    """Eight commits were salvaged to a ref, and the next agent wrote all of it again because nobody named the ref."""
    commit(task.copy, "b.txt", "1\n2\n", "step one")
    write(task.copy, "c.txt", "3\n")
    ref = task.keep()
    assert ref == "refs/dispatcher/7/1"
    assert git(task.target, "show", f"{ref}:b.txt") == "1\n2"
    assert git(task.target, "show", f"{ref}:c.txt") == "3"
    assert task.look().files == ("b.txt", "c.txt")
    stat = delivery.diffstat(task.target, task.base.base, ref)
    assert stat.files == (("b.txt", 2, 0), ("c.txt", 1, 0))


def test_93_a_process_that_still_works_in_the_copy_is_named_and_its_commit_is_seen_after_it(task: Task) -> None:
    """The probe ran before the agent's last commit; the commit was orphaned and the worktree reaped."""
    code = "import subprocess, sys; print('ready', flush=True); sys.stdin.readline();"
    code += "subprocess.run(['git', 'commit', '-q', '--allow-empty', '-m', 'late'], check=True)"
    late = subprocess.Popen([sys.executable, "-c", code], cwd=task.copy, stdin=-1, stdout=-1, text=True)
    with late:
        assert late.stdout is not None
        assert late.stdout.readline() == "ready\n"
        before = task.look()
        late.communicate("go\n")
    assert any(f"(pid {late.pid})" in note for note in before.notes)
    after = task.look()
    assert [c.subject for c in after.commits] == ["late"]
    assert not any("still running" in note for note in after.notes)


def test_95_commits_from_before_the_task_are_not_its_work(target: Path, copy: Path) -> None:
    """A stale ref showed seven commits that were there before; a sibling's fetch moved the base."""
    git(target, "checkout", "-qb", "feature")
    for number in range(3):
        commit(target, "old.txt", f"{number}\n", f"old {number}")
    task = start(target, copy)
    assert task.look().shape is Shape.NOTHING
    commit(target, "other.txt", "a person goes on\n", "person")
    git(target, "branch", "-f", "main", "feature")
    made = commit(task.copy, "new.txt")
    assert [c.sha for c in task.look().commits] == [made]


@pytest.mark.parametrize("how", ["amend", "reset", "rebase"])
def test_95_rewritten_history_still_counts_as_moved(target: Path, copy: Path, how: str) -> None:
    """HEAD is no descendant of the base any more: moved, flagged, and never "nothing happened"."""
    commit(target, "b.txt", "two\n", "second")
    task = start(target, copy)
    if how == "amend":
        git(task.copy, "commit", "-q", "--amend", "-m", "second, better")
    elif how == "reset":
        git(task.copy, "reset", "-q", "--hard", "HEAD~1")
    else:
        git(task.copy, "checkout", "-q", "--orphan", "fresh")
        git(task.copy, "commit", "-qm", "all anew")
    found = task.look()
    assert found.rewritten
    assert found.moved
    assert found.error is None


LOCK_HOLDER = "import os, sys; f = open(sys.argv[1], 'x'); print('ready', flush=True); sys.stdin.readline()"


def _git_holding(lock: Path, where: Path, tmp: Path) -> subprocess.Popen[str]:
    """A process called git with the copy as its folder, holding a lock: what a real one looks like in the middle."""
    fake = tmp / "git"
    if not fake.exists():
        fake.symlink_to(sys.executable)
    home = {**os.environ, "PYTHONHOME": sys.base_prefix}
    held = subprocess.Popen(
        [str(fake), "-c", LOCK_HOLDER, str(lock)], cwd=where, stdin=-1, stdout=-1, text=True, env=home
    )
    assert held.stdout is not None
    assert held.stdout.readline() == "ready\n"
    return held


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a lock's owner is read from /proc")


@linux_only
def test_96_a_lock_whose_git_was_killed_is_removed(task: Task, tmp_path: Path) -> None:
    """SIGKILL leaves index.lock; status still works under it, add and commit refuse, and the finish prompt fails."""
    lock = task.copy / ".git" / "index.lock"
    with _git_holding(lock, task.copy, tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
    assert "File exists" in git(task.copy, "commit", "--allow-empty", "-m", "x", ok=False)
    assert task.look().stale_lock == str(lock)
    note = delivery.clear_stale_lock(task.copy)
    assert note is not None
    assert "removed" in note
    assert str(lock) in note
    commit(task.copy)
    assert delivery.clear_stale_lock(task.copy) is None


@linux_only
def test_96_a_lock_with_a_living_git_is_waited_for_and_never_removed(task: Task, tmp_path: Path) -> None:
    """Four agents in one folder: removing a lock that is held breaks the other one's index."""
    lock = task.copy / ".git" / "index.lock"
    with _git_holding(lock, task.copy, tmp_path) as holder:
        note = delivery.clear_stale_lock(task.copy, wait=0.1)
        assert note is not None
        assert f"(pid {holder.pid})" in note
        assert lock.exists()
        holder.communicate("end\n")
    assert "removed" in (delivery.clear_stale_lock(task.copy) or "")


def test_96_the_lock_of_a_linked_worktree_is_found_in_its_own_git_folder(target: Path, copy: Path) -> None:
    """The lock lies in .git/worktrees/<name>/, not in .git."""
    task = start(target, copy, mode=CopyMode.WORKTREE)
    lock = Path(git(task.copy, "rev-parse", "--absolute-git-dir")) / "index.lock"
    lock.touch()
    assert task.look().stale_lock == str(lock)
    assert "removed" in (delivery.clear_stale_lock(task.copy) or "")


def test_97_looking_never_takes_the_lock(task: Task) -> None:
    """A background status took index.lock and the person's own git failed. Here: the index is not even rewritten."""
    index, lock = task.copy / ".git" / "index", task.copy / ".git" / "index.lock"

    def state() -> tuple[int, int]:
        return index.stat().st_mtime_ns, index.stat().st_ino

    os.utime(task.copy / "a.txt", (1, 1))  # what git has noted about it is out of date
    before = state()
    assert task.look().error is None
    evidence.snapshot(task.copy)
    assert task.keep() is None
    assert state() == before
    lock.touch()  # held by somebody: looking works all the same
    assert task.look().error is None
    lock.unlink()
    git(task.copy, "status")
    assert state() != before, "the control: a plain status rewrites it, and takes the lock for that"


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_98_a_repository_without_a_commit(tmp_path: Path, copy: Path, form: str) -> None:
    """`rev-parse HEAD` fails with 128 and an ambiguous argument; the empty tree has another id under SHA-256."""
    task = start(init(tmp_path / "fresh", f"--object-format={form}"), copy)
    assert task.info.base_sha is None
    assert task.info.branch == "main"
    assert task.look().shape is Shape.NOTHING
    write(task.copy, "a.py", "1\n2\n")
    assert task.look().dirty == ("a.py",)
    first = commit(task.copy, "a.py", "1\n2\n", "the first")
    found = task.look()
    assert [(c.sha, c.subject) for c in found.commits] == [(first, "the first")]
    assert (found.files, found.insertions, found.rewritten) == (("a.py",), 2, False)
    sent = task.deliver()
    assert git(task.target, "log", "--format=%s", sent.branch) == "the first"


def test_98_a_folder_that_is_no_repository_has_its_own_message(tmp_path: Path, target: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(RepositoryError, match="is not a git repository"):
        copies.resolve(plain)
    with pytest.raises(RepositoryError, match="is not a folder"):
        copies.resolve(tmp_path / "nowhere")
    git(tmp_path, "clone", "-q", "--bare", str(target), "bare.git")
    with pytest.raises(RepositoryError, match="is a bare repository"):
        copies.resolve(tmp_path / "bare.git")


def test_99_commits_on_a_detached_head_are_counted_and_named(target: Path, copy: Path) -> None:
    """`--abbrev-ref HEAD` prints HEAD, which was taken for a branch, and a detached duplicate was made."""
    git(target, "checkout", "-q", "--detach")
    task = start(target, copy)
    assert (task.info.branch, task.info.detached) == (None, True)
    made = commit(task.copy)
    found = task.look()
    assert found.detached
    assert [c.sha for c in found.commits] == [made]
    assert any("no branch holds" in note for note in found.notes)
    assert git(task.target, "log", "-1", "--format=%s", task.deliver().branch) == "work"


ODD = ["ä b.txt", "a -> b", "new\nline", "tab\there", '"quoted"', "-dash", ":(top)x", "R  old -> new"]


def test_100_names_of_any_bytes(task: Task) -> None:
    """`"caf\\303\\251.txt"` and `R  old -> new` were read as names."""
    names = sorted([*ODD, os.fsdecode(b"latin-\xe9")], key=os.fsencode)
    for name in names:
        write(task.copy, name)
    assert list(task.look().dirty) == names
    assert evidence.TaskBase.from_json(evidence.snapshot(task.copy).to_json()).dirty.keys() == set(names)
    assert task.keep() is not None
    git(task.copy, "add", "-A")
    git(task.copy, "commit", "-qm", "all")
    assert list(task.look().files) == names
    git(task.copy, "mv", "a.txt", "b.txt")
    assert task.look().dirty == ("a.txt", "b.txt")


@pytest.fixture
def with_submodule(target: Path, tmp_path: Path) -> Path:
    inner = init(tmp_path / "inner")
    commit(inner, "lib.c", "1\n")
    git(target, "submodule", "add", "-q", str(inner), "sub")
    git(target, "commit", "-qm", "with a submodule")
    return target


def test_101_a_change_inside_a_submodule_is_dirty(with_submodule: Path, copy: Path) -> None:
    """` M sub` is work, and a submodule of a fresh copy is populated without a network."""
    task = start(with_submodule, copy)
    assert (task.copy / "sub" / "lib.c").read_text() == "1\n"
    assert task.look().shape is Shape.NOTHING
    assert git(task.copy, "status", "--porcelain") == ""
    write(task.copy / "sub", "lib.c", "2\n")
    assert task.look().dirty == ("sub",)
    commit(task.copy / "sub", "lib.c", "2\n")
    assert task.look().dirty == ("sub",)
    with pytest.raises(Refused, match="the submodule sub"):
        copies.remove(task.copy, task.target)


def test_101_a_clean_worktree_with_submodules_is_removed_by_force_once(with_submodule: Path, copy: Path) -> None:
    """Git said: working trees containing submodules cannot be moved or removed. The same doomed retry 200 times."""
    task = start(with_submodule, copy, mode=CopyMode.WORKTREE)
    git(task.copy, "submodule", "update", "-q", "--init")
    copies.remove(task.copy, task.target)
    assert not task.copy.exists()
    assert git(task.target, "worktree", "list").count("\n") == 0
    assert "dispatcher-work" not in git(task.target, "branch")


def test_101_a_removal_that_fails_is_reported_once(target: Path, copy: Path) -> None:
    task = start(target, copy, mode=CopyMode.WORKTREE)
    git(target, "worktree", "lock", str(task.copy))
    with pytest.raises(GitError, match="locked"):
        copies.remove(task.copy, task.target)
    assert task.copy.exists()


def _refusing(target: Path, text: str = "lint: 3 problems") -> None:
    script(target / ".git" / "hooks" / "pre-commit", f"echo '{text}' >&2\nexit 1\n")


def test_102_a_hook_that_refuses_is_named_and_the_work_is_kept_all_the_same(
    target: Path, copy: Path, tmp_path: Path
) -> None:
    """Hooks were silently absent in worktrees, or blocked every commit until somebody used --no-verify."""
    _refusing(target)
    task = start(target, copy)
    trace = tmp_path / "trace"
    write(task.copy, "b.txt", "work\n")
    git(task.copy, "add", "b.txt")
    said = git(task.copy, "commit", "-m", "x", ok=False, env={"GIT_TRACE2_EVENT": str(trace)})
    assert "lint: 3 problems" in said  # the target's hook works in the copy
    found = task.look(trace=trace)
    assert found.hook_output == "the hook pre-commit (exit code 1) refused the commit"
    assert found.shape is Shape.DIRTY
    ref = task.keep()
    assert git(task.target, "show", f"{ref}:b.txt") == "work"
    git(task.copy, "commit", "-q", "--no-verify", "-m", "y", env={"GIT_TRACE2_EVENT": str(trace)})
    assert task.look(trace=trace).hook_output is None  # a later commit went through


def test_102_a_hooks_path_inside_the_target_works_in_the_copy(target: Path, copy: Path) -> None:
    """core.hooksPath as husky sets it: relative, or absolute into the target's own folder."""
    script(target / ".githooks" / "pre-commit", "echo $(pwd) > hook-ran\n")
    git(target, "add", ".githooks")
    git(target, "commit", "-qm", "hooks")
    git(target, "config", "core.hooksPath", str(target / ".githooks"))
    task = start(target, copy)
    commit(task.copy)
    assert (task.copy / "hook-ran").read_text().strip() == str(task.copy)
    assert not (target / "hook-ran").exists()


def test_103_signing_that_fails_is_told_and_warned_of_before(target: Path, copy: Path, tmp_path: Path) -> None:
    """ "gpg failed to sign the data", "cannot open tty": no other model will do better."""
    git(target, "config", "commit.gpgsign", "true")
    git(target, "config", "gpg.program", str(script(tmp_path / "gpg", "echo 'no pinentry' >&2\nexit 2\n")))
    assert any("signed" in note for note in copies.resolve(target).notes)
    task = start(target, copy)
    trace = tmp_path / "trace"
    write(task.copy, "b.txt")
    git(task.copy, "add", "b.txt")
    said = git(task.copy, "commit", "-m", "x", ok=False, env={"GIT_TRACE2_EVENT": str(trace)})
    assert "gpg failed to sign" in said
    found = task.look(trace=trace)
    assert "signing failed: gpg (exit code 2)" in found.notes
    assert found.signing_error == "gpg (exit code 2)"
    assert task.keep() is not None  # our own commits are never signed, so nothing is asked and nothing hangs


def test_103_signing_that_hangs_is_told_when_its_tree_was_ended(target: Path, copy: Path, tmp_path: Path) -> None:
    """A gpg without a prompt waits for ever; the hard cap ends it, and the last commit never came to its end."""
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    gpg = script(tmp_path / "gpg", f"echo ready > {fifo}\nexec sleep 600\n")
    git(target, "config", "commit.gpgsign", "true")
    git(target, "config", "gpg.program", str(gpg))
    task = start(target, copy)
    write(task.copy, "b.txt")
    git(task.copy, "add", "b.txt")
    env = {**os.environ, "GIT_TRACE2_EVENT": str(tmp_path / "trace")}
    with subprocess.Popen(["git", "commit", "-qm", "x"], cwd=task.copy, env=env, start_new_session=True) as hung:
        assert fifo.read_text() == "ready\n"
        os.killpg(hung.pid, signal.SIGKILL)
    found = task.look(trace=tmp_path / "trace")
    assert found.signing_error == "gpg (did not end)"


def test_104_what_a_killed_dispatcher_left_is_reused_or_named(target: Path, copy: Path) -> None:
    """Four states of a worktree after a kill, none of which may end in a junk detached duplicate."""
    first = start(target, copy, mode=CopyMode.WORKTREE)
    assert copies.prepare(target, copy, mode=CopyMode.WORKTREE, marker="task-7").reused
    branch = first.info.branch
    assert branch is not None
    # the folder is gone, the registry still points there
    copies.delete_tree(copy)
    again = start(target, copy, mode=CopyMode.WORKTREE)
    assert again.info.branch == branch
    # the branch is checked out by a worktree elsewhere
    elsewhere = copy.parent / "elsewhere"
    git(target, "worktree", "move", str(copy), str(elsewhere))
    with pytest.raises(RepositoryError, match=str(elsewhere)):
        start(target, copy, mode=CopyMode.WORKTREE)
    git(target, "worktree", "remove", "--force", str(elsewhere))
    # a folder that git does not know
    write(copy, "leftover.txt")
    with pytest.raises(RepositoryError, match=f"{copy} is in the way"):
        start(target, copy, mode=CopyMode.WORKTREE)
    assert git(target, "worktree", "list").count("\n") == 0
    assert git(target, "branch", "--format=%(refname:short)").split() == [branch, "main"]


def test_104_a_clone_that_was_not_finished_is_made_again(target: Path, copy: Path) -> None:
    """A copy is made under another name and renamed: what lies there unfinished was never given to a worker."""
    unfinished = copy.with_name(f".{copy.name}.unfinished")
    write(unfinished, ".git/objects/half", "x")
    task = start(target, copy)
    assert not unfinished.exists()
    assert (task.copy / "a.txt").read_text() == "one\n"


def test_104_a_copy_of_another_task_or_a_foreign_folder_is_refused_with_its_path(
    task: Task, target: Path, tmp_path: Path
) -> None:
    with pytest.raises(RepositoryError, match=f"{task.copy} is in the way: it belongs to task-7"):
        start(target, task.copy, marker="task-8")
    write(tmp_path / "mine", "notes.txt")
    with pytest.raises(RepositoryError, match="is not a task copy"):
        start(target, tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").exists()
    again = start(target, task.copy)
    assert again.info.reused
    assert again.info.base_sha == task.base.base


def test_106_a_commit_that_never_succeeds_looks_the_same_each_time(target: Path, copy: Path) -> None:
    """The commit failed, so did unstaging; the loop had no end. `moved` stays false, which is what bounds it."""
    _refusing(target)
    task = start(target, copy)
    write(task.copy, "b.txt")
    git(task.copy, "add", "b.txt")
    begin = evidence.snapshot(task.copy)
    for _ in range(2):
        git(task.copy, "commit", "-m", "x", ok=False)
        found = task.look(start=begin)
        assert (found.shape, found.moved) == (Shape.DIRTY, False)


def test_107_a_commit_and_one_file_left_over(task: Task) -> None:
    """Everything was good but for `M src/index.ts`: one more prompt would have done it."""
    made = commit(task.copy, "b.txt")
    write(task.copy, "a.txt", "changed\n")
    found = task.look()
    assert found.shape is Shape.COMMITS_DIRTY
    assert ([c.sha for c in found.commits], found.dirty) == ([made], ("a.txt",))


def test_108_a_finished_copy_shows_its_work_to_whoever_looks_next(task: Task) -> None:
    """The worker had committed and gone, the row said running, and a second agent was sent."""
    commit(task.copy, "b.txt")
    stored = evidence.TaskBase.from_json(task.base.to_json())  # as another dispatcher reads it from the row
    found = evidence.inspect(task.copy, stored)
    assert found.shape is Shape.COMMITS
    assert copies.prepare(task.target, task.copy, marker="task-7").reused


def test_109_the_home_folder_is_no_target(home: Path) -> None:
    """A harness that snapshots its whole folder filled disks when that folder was somebody's home."""
    init(home)
    with pytest.raises(RepositoryError, match="too large to be a target"):
        copies.resolve(home)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"


def _lfs_target(root: Path, content: bytes) -> None:
    """What `git lfs` leaves in a repository, made by hand: attribute, pointer and the stored content."""
    import hashlib

    oid = hashlib.sha256(content).hexdigest()
    git(root, "config", "filter.lfs.clean", "git-lfs-is-not-installed")
    commit(root, ".gitattributes", "*.bin filter=lfs -text\n")
    pointer = POINTER.format(oid=oid, size=len(content))
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=root, input=pointer.encode(), capture_output=True, check=True
    ).stdout.decode()
    git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob.strip()},big.bin")
    git(root, "commit", "-qm", "large file")
    write(root, f".git/lfs/objects/{oid[:2]}/{oid[2:4]}/{oid}", content)
    write(root, "big.bin", content)


def test_110_lfs_files_are_there_and_are_no_changes(target: Path, copy: Path) -> None:
    """154 LFS files looked modified in a fresh worktree."""
    _lfs_target(target, b"large " * 1000)
    task = start(target, copy)
    assert (task.copy / "big.bin").read_bytes() == b"large " * 1000
    assert task.base.dirty == {}
    assert task.look().shape is Shape.NOTHING
    write(task.copy, "big.bin", "really changed\n")
    assert task.look().dirty == ("big.bin",)


def test_110_line_endings_that_never_match_are_no_changes(target: Path, copy: Path) -> None:
    """CRLF in the repository, `text` in the attributes: modified for ever, once an mtime has moved."""
    commit(target, "dos.txt", "a\r\nb\r\n")
    commit(target, ".gitattributes", "*.txt text\n")
    task = start(target, copy)
    os.utime(task.copy / "dos.txt", (1, 1))
    assert "dos.txt" in git(task.copy, "status", "--porcelain")
    assert task.look().shape is Shape.NOTHING
    assert task.keep() is None
    write(task.copy, "dos.txt", "a\r\nb\r\nc\r\n")
    assert task.look().dirty == ("dos.txt",)


def test_110_what_was_dirty_before_is_subtracted_by_content(target: Path, copy: Path) -> None:
    """A repository that is dirty from the start gets no finish prompt for it, but does for what comes on top."""
    write(target, "a.txt", "a person is here\n")
    write(target, "notes.txt", "mine\n")
    task = start(target, copy, mode=CopyMode.IN_PLACE)
    assert task.look().shape is Shape.NOTHING
    write(target, "a.txt", "a person is here\n")  # the same bytes again
    assert task.look().dirty == ()
    write(target, "a.txt", "and the worker too\n")
    assert task.look().dirty == ("a.txt",)
    (target / "notes.txt").unlink()
    assert any("is gone: notes.txt" in note for note in task.look().notes)


def test_111_scratch_is_no_work_and_new_source_is(task: Task) -> None:
    """Of 44 dirty worktrees 22 were dirty by one settings file of the tool."""
    write(task.copy, ".claude/settings.local.json", "{}")
    write(task.copy, ".opencode/session.json", "{}")
    found = task.look()
    assert found.shape is Shape.NOTHING
    assert found.scratch == (".claude/settings.local.json", ".opencode/session.json")
    write(task.copy, "src/new.py", "1\n")
    assert task.look().dirty == ("src/new.py",)
    assert ".opencode/session.json" in evidence.inspect(task.copy, task.base, scratch=()).dirty


def test_111_the_list_of_what_is_no_work_is_gits_own(target: Path, copy: Path) -> None:
    """A person adds to it where git looks for it anyway: .git/info/exclude of the target counts in the copy."""
    write(target, ".git/info/exclude", "*.scratch\n/notes/\n")
    write(target, "mine.scratch", "before\n")
    task = start(target, copy)
    write(task.copy, "try.scratch")
    write(task.copy, "notes/plan.md")
    found = task.look()
    assert (found.shape, found.dirty) == (Shape.NOTHING, ())
    assert found.ignored == ("notes/plan.md", "try.scratch")
    write(task.copy, "plan.md")
    assert task.look().dirty == ("plan.md",)


def test_111_a_nested_repository_is_named(task: Task) -> None:
    """`git add -A` committed 255 files of nested worktrees."""
    inner = init(task.copy / "vendor" / "thing")
    commit(inner, "x.c")
    found = task.look()
    assert found.nested == ("vendor/thing",)
    assert found.dirty == ("vendor/thing",)
    with pytest.raises(Refused, match="the repository vendor/thing"):
        copies.remove(task.copy, task.target)


def test_112_nothing_of_ours_lies_in_the_work_tree(task: Task) -> None:
    """The runner's own folder lost its ignore rule when the agent edited it, and a good task was blocked."""
    assert git(task.copy, "status", "--porcelain", "--ignored") == ""
    assert git(task.target, "status", "--porcelain", "--ignored") == ""
    assert sorted(p.name for p in task.copy.iterdir()) == [".git", "a.txt"]
    assert (task.copy / ".git" / "dispatcher.json").exists()
    with pytest.raises(RepositoryError, match="lies inside the target"):
        start(task.target, task.target / "copies" / "8", marker="task-8")


def test_113_only_ignored_files_were_written(target: Path, copy: Path) -> None:
    """A completed write to an ignored file looked like a run that did nothing, and was run again and again."""
    commit(target, ".gitignore", "outputs/\n*.log\n")
    write(target, "outputs/from-before.txt")
    task = start(target, copy)
    write(task.copy, "outputs/old.txt")
    task.base = evidence.snapshot(task.copy)
    assert task.look().ignored == ()
    write(task.copy, "outputs/deep/report.txt")
    write(task.copy, "run.log")
    found = task.look()
    assert found.shape is Shape.NOTHING
    assert found.ignored == ("outputs/deep/report.txt", "run.log")
    with view(layout(task.copy)) as seen:
        assert seen.sha("HEAD") == task.base.base
