"""The one place that runs git, and why no code of a repository can run while it does.

A worker can write the `.git` folder of its copy, and a target may hold anything. git runs programs named there: hooks,
`core.fsmonitor`, filters, textconv, external diff and merge drivers, `gpg.program`, upload-pack commands, aliases.
Refusing known keys one by one would always miss one, so git never sees that configuration at all. Commands run in a
`View`: a git directory made for the moment, which links to the repository's objects, refs, index and ignore files, but
whose `config` holds only the keys of `ALLOWED` (line endings, file modes, sparse checkout, ignore files, object
format), all of them plain values. Commands on the real git directory (`Layout.run`) are only those that read the
configuration as text or move refs; hooks are off for them by `core.hooksPath`.

Unavoidable and said here: filters are never run, so LFS is done by hand (`lfs`), and files of other filters (git-crypt)
are as they are stored. No transport is allowed; objects travel as packs that we make and index ourselves. Replace refs,
grafts and commit-graph files could lie about history and are not read (a view has no link to grafts).
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from subprocess import DEVNULL, PIPE

from dispatcher.errors import GitError, RepositoryError

OPTIONS: tuple[tuple[str, str], ...] = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.commitGraph", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.directory", "*"),  # harmless here: nothing of the repository is executed, whoever owns it
)

ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",  # a list of one that does not exist: no transport at all, `file` included
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_ASKPASS": "false",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
NEEDED = "install git 2.38 or later"
KEPT_VARIABLES = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR")

# Keys that may be taken over from the repository and from the person's own configuration: values, never programs.
ALLOWED = frozenset(
    {
        *("core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode"),
        *("core.sparsecheckout", "core.sparsecheckoutcone", "core.excludesfile", "core.attributesfile"),
        *("core.trustctime", "core.checkstat", "core.bigfilethreshold"),
        *("extensions.objectformat", "extensions.refstorage", "index.sparse"),
    }
)

LINKED = ("packed-refs", "refs", "reftable", "shallow")  # of the common folder
INFO = ("exclude", "attributes", "sparse-checkout")


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out).rstrip("\n")


def call(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    ok: Sequence[int] = (0,),
) -> Result:
    """One git command under the safe options. A code outside `ok` is a GitError that carries git's own words.

    A variable of `env` that is empty is left out altogether.
    """
    try:
        from git.cmd import safer_popen
    except ImportError as error:  # GitPython looks for git while it is imported
        raise GitError(f"git cannot be used: {error}", hint=None if shutil.which("git") else NEEDED) from error
    variables = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    variables |= {**ENVIRONMENT, **(env or {})}
    options = [part for key, value in OPTIONS for part in ("-c", f"{key}={value}")]
    # Not `Git.execute`: it adds to the environment and cannot take away from it (GIT_DIR, GIT_TRACE, ...).
    try:
        process = safer_popen(
            ["git", *options, *arguments],
            cwd=cwd,
            env={name: value for name, value in variables.items() if value},
            stdin=PIPE if stdin else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        with process:
            out, err = process.communicate(stdin or None)
    except (OSError, ValueError) as error:
        missing = getattr(error, "filename", None) == "git"
        raise GitError(f"git did not start: {error}", hint=NEEDED if missing else None) from error
    result = Result(process.returncode, out, err.decode("utf-8", "surrogateescape").removesuffix("\n"))
    if result.code not in ok:
        raise _failed(arguments, result)
    return result


def _failed(arguments: Sequence[str], result: Result) -> GitError:
    command = "git " + shlex.join(arguments)
    stderr = result.err.strip()
    lines = [line for line in stderr.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "no words")
    return GitError(f"{command[:120]} failed: {first}", command=command, stderr=stderr, code=result.code)


@dataclass(frozen=True)
class Layout:
    """Where a repository keeps its parts. `common` differs from `git_dir` only in a linked worktree."""

    root: Path
    git_dir: Path
    common: Path

    @property
    def objects(self) -> Path:
        return self.common / "objects"

    def run(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, ok: Sequence[int] = (0,)
    ) -> Result:
        """For commands that only read configuration as text or move refs; all others belong in a `view`."""
        return call(arguments, cwd=self.git_dir, env={"GIT_DIR": str(self.git_dir), **(env or {})}, stdin=stdin, ok=ok)

    def refs(self, *patterns: str) -> dict[str, str]:
        """Full ref names and what they point at, tags peeled to their commit."""
        return {name: peeled or sha for name, (sha, peeled) in _refs(self.run(*LIST_REFS, *patterns)).items()}

    def config(self) -> list[tuple[str, str, str]]:
        """Scope (system, global, local, worktree), key and value, in the order in which later ones win.

        Asked for once: a layout lives as long as one operation.
        """
        return self._config

    @cached_property
    def _config(self) -> list[tuple[str, str, str]]:
        everyone = {"GIT_CONFIG_NOSYSTEM": "", "GIT_CONFIG_GLOBAL": ""}
        fields = self.run("config", "--list", "--show-scope", "-z", env=everyone).out.split(b"\0")
        found = []
        for scope, record in zip(fields[0::2], fields[1::2], strict=False):
            key, has_value, value = record.partition(b"\n")
            if scope != b"command":  # our own options
                found.append((os.fsdecode(scope), os.fsdecode(key), os.fsdecode(value) if has_value else "true"))
        return found


LIST_REFS = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(*objectname)")


def _refs(listed: Result) -> dict[str, tuple[str, str]]:
    """Full ref names, what they point at, and the commit of a tag object (else empty)."""
    fields = (os.fsdecode(line).split("\0") for line in listed.out.split(b"\n") if line)
    return {name: (sha, peeled) for name, sha, peeled in fields}


def layout(root: Path) -> Layout:
    """The parts of the repository whose work tree is exactly `root`; never searched upwards."""
    dot = root / ".git"
    try:
        if dot.is_dir():
            git_dir = dot
        elif dot.is_file():
            named = os.fsdecode(dot.read_bytes()).removeprefix("gitdir:").strip()
            git_dir = Path(os.path.normpath(root / named))
        else:
            raise RepositoryError(f"{root} is not a git repository")
        pointer = git_dir / "commondir"
        shared = os.fsdecode(pointer.read_bytes()).strip() if pointer.is_file() else "."
        common = Path(os.path.normpath(git_dir / shared))
    except OSError as error:
        raise RepositoryError(f"{root} cannot be read: {error.strerror or error}") from error
    return Layout(root, git_dir, common)


def quoted_config(pairs: Sequence[tuple[str, str]]) -> str:
    """Keys such as `remote.origin.url` and their values as the text of a git configuration file."""
    lines = []
    for key, value in pairs:
        section, _, rest = key.partition(".")
        middle, _, name = rest.rpartition(".")
        inner = "" if not middle else ' "' + middle.replace("\\", "\\\\").replace('"', '\\"') + '"'
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        lines.append(f'[{section}{inner}]\n\t{name} = "{escaped}"\n')
    return "".join(lines)


@dataclass(frozen=True)
class View:
    """A repository read without its configuration. `index` is the repository's own unless another one is named."""

    of: Layout
    folder: Path
    index: Path
    objects: Path
    alternates: tuple[Path, ...] = ()

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
    ) -> Result:
        variables = {
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self.of.root),
            "GIT_INDEX_FILE": str(index or self.index),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(quoted_path(path) for path in self.alternates),
            **(env or {}),
        }
        return call(arguments, cwd=self.of.root, env=variables, stdin=stdin, ok=ok)

    def sha(self, name: str) -> str | None:
        """The commit that `name` means, None when there is none."""
        found = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1, 128))
        return found.text if found.code == 0 else None

    def branch(self) -> str | None:
        """The short name of the branch that HEAD is on (also when it has no commit yet), None when detached."""
        ref = self.head_ref()
        return None if ref is None else ref.removeprefix("refs/heads/")

    def head_ref(self) -> str | None:
        """The full ref that HEAD names, None when detached. Read as git wrote it; what is neither is asked of git."""
        head = (self.folder / "HEAD").read_bytes().strip()
        if head.startswith(b"ref: refs/") and not head.endswith(b"/.invalid"):  # that is how a reftable is marked
            return os.fsdecode(head[len(b"ref: ") :])
        if len(head) in (40, 64) and not head.strip(b"0123456789abcdef"):
            return None
        found = self.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
        return found.text if found.code == 0 else None

    def head(self, refs: Mapping[str, str]) -> str | None:
        """The commit of HEAD, None without one; git is asked only when these refs do not say it."""
        return refs.get(self.head_ref() or "") or self.sha("HEAD")

    def refs(self, *patterns: str) -> dict[str, str]:
        """Full ref names and what they point at, tags peeled to their commit."""
        return {name: peeled or sha for name, (sha, peeled) in self.all_refs(*patterns).items()}

    def all_refs(self, *patterns: str) -> dict[str, tuple[str, str]]:
        """The same with tags as they are, and the commit of each tag object."""
        return _refs(self.run(*LIST_REFS, *patterns))

    def gitlinks(self) -> dict[str, str]:
        """Paths and commits of the submodules that the index names. Cheap when there is no sign of a submodule."""
        if not (self.of.root / ".gitmodules").exists():
            return {}
        lines = (os.fsdecode(line) for line in self.run("ls-files", "--stage", "-z").out.split(b"\0"))
        return {line.partition("\t")[2]: line.split(" ")[1] for line in lines if line.startswith("160000 ")}

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.run("merge-base", "--is-ancestor", old, new, ok=(0, 1)).code == 0


@contextmanager
def view(
    of: Layout, *, writes_to: Layout | None = None, like: Sequence[tuple[str, str, str]] | None = None
) -> Iterator[View]:
    """A view of a repository. With `writes_to`, new objects go into that other repository, and both are read.

    `like` is its configuration where the caller knows it: a clone that was made a moment ago.
    """
    folder = Path(tempfile.mkdtemp(prefix="dispatcher-view-"))
    try:
        config = _allowed(of.config() if like is None else like)
        (folder / "config").write_text(quoted_config(config), errors="surrogateescape")
        shutil.copyfile(of.git_dir / "HEAD", folder / "HEAD")
        (folder / "info").mkdir()
        for source, name in [*((of.common, n) for n in LINKED), *((of.common / "info", n) for n in INFO)]:
            if os.path.lexists(source / name):
                (folder / (source.name if source.name == "info" else "") / name).symlink_to(source / name)
        for shared in of.git_dir.glob("sharedindex.*"):  # the larger half of a split index
            (folder / shared.name).symlink_to(shared)
        if not (folder / "refs").exists():
            (folder / "refs").mkdir()
        here = (of.objects,) if writes_to is not None and writes_to.objects != of.objects else ()
        objects = writes_to.objects if writes_to is not None else of.objects
        yield View(of, folder, of.git_dir / "index", objects, here)
    except OSError as error:
        raise GitError(f"{of.root} cannot be read as a git repository: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _allowed(config: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    kept = {key: value for _, key, value in config if key in ALLOWED}
    version = "1" if any(key.startswith("extensions.") for key in kept) else "0"
    return [("core.repositoryformatversion", version), ("core.bare", "false"), ("checkout.workers", "0"), *kept.items()]


def quoted_path(path: Path) -> str:
    """A path as git wants it in a list of object folders: quoted only when it has to be."""
    text = str(path)
    if not any(character in text for character in ':"\n\\#'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
