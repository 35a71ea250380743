# ruff: noqa: E501, SIM905  # tables of names
"""Which files a command may change, and which files make something run later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from dispatcher.policy.shell import QUOTED, SAFE, UNKNOWN

_READERS = frozenset(
    """cat head tail less more wc grep egrep fgrep rg ag ack diff cmp comm ls stat file test [ md5sum sha1sum sha256sum cksum
    jq yq nl od xxd hexdump strings sort uniq cut tr column tree du df find fd realpath readlink basename dirname echo printf
    which type true false pwd sed awk bat""".split()
)
_GIT_READS = frozenset(
    {"diff", "show", "log", "status", "blame", "grep", "ls-files", "cat-file", "ls-tree", "rev-parse"}
)


def only_reads(words: Sequence[str]) -> bool:
    """A command that changes no file but those that its output is sent to."""
    if not words:
        return True
    name = words[0]
    if name == "git":
        return any(word in _GIT_READS for word in words[1:3])
    if name == "sed":
        return not any(
            re.match(r"-[a-zA-Z]*i|--in-place", word) or re.search(r"(^|[;}/\d])\s*w\s", word) for word in words[1:]
        )
    if name in ("awk",):
        return not any(">" in word for word in words[1:]) and "-i" not in words
    if name in ("find", "fd"):
        return not any(word in ("-delete", "-fprint", "-fprintf", "-fls") for word in words)
    if name in ("sort",):
        return not any(word.startswith(("-o", "--output")) for word in words)
    if name == "yq":
        return not any(re.match(r"-[a-zA-Z]*i|--inplace", word) for word in words)
    return name in _READERS


_SETTINGS_FOLDERS = frozenset({".git", ".claude", ".opencode"})
_SETTINGS_FILES = frozenset(
    """opencode.json opencode.jsonc .mcp.json .claude.json .gitconfig .bashrc .bash_profile .bash_login .bash_aliases
    .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .zlogout .envrc""".split()
)
_WITHIN = frozenset(
    """config config.worktree settings.json settings.local.json applypatch-msg commit-msg fsmonitor-watchman post-applypatch
    post-checkout post-commit post-merge post-receive post-rewrite post-update pre-applypatch pre-auto-gc pre-commit
    pre-merge-commit pre-push pre-rebase pre-receive prepare-commit-msg push-to-checkout reference-transaction update
    hooks plugin plugins""".split()
)
"""What makes something run inside of such a folder, when it cannot be told which folder it is."""

_DARK = re.compile(f"[{UNKNOWN}{QUOTED}](?!{SAFE})")
_ANY = re.compile(f"[{UNKNOWN}{QUOTED}]({SAFE})?")


def dark(path: str) -> bool:
    """Only the run will know which file it is."""
    return _DARK.search(path) is not None


_WRITERS = frozenset("tee sed truncate touch chmod chown sponge ed ex perl patch".split())
_REMOVERS = frozenset({"rm", "unlink", "rmdir", "shred"})
_COPIERS: Mapping[str, tuple[str, ...]] = {  # options that take a word of their own
    "cp": ("-S", "--suffix"), "mv": ("-S", "--suffix"), "ln": ("-S", "--suffix"), "link": (), "ditto": (),
    "install": ("-m", "--mode", "-o", "--owner", "-g", "--group", "-S"), "scp": ("-P", "-i", "-F", "-o"),
    "rsync": ("-e", "--rsh", "--exclude", "--include", "--exclude-from", "--include-from", "--files-from", "-f", "--filter",
              "-B", "-T", "--backup-dir", "--suffix"),
}  # fmt: skip
_INTO: Mapping[str, tuple[str, ...]] = {  # options that name the file or folder which is written
    "tar": ("-C", "--directory", "--one-top-level"), "bsdtar": ("-C", "--directory"), "gtar": ("-C", "--directory"),
    "unzip": ("-d",), "cpio": ("-D", "--directory"), "7z": ("-o",), "7za": ("-o",), "7zz": ("-o",), "unrar": ("-op",),
    "curl": ("-o", "--output", "--output-dir"), "patch": ("-d", "-o", "--directory", "--output"),
    "wget": ("-O", "-P", "--output-document", "--directory-prefix"), "sort": ("-o", "--output"), "dd": ("of=",),
    "git": ("-o", "--output", "--output-directory", "--directory", "--separate-git-dir"), "openssl": ("-out",),
    "aria2c": ("-o", "-d", "--out", "--dir"),
}  # fmt: skip
_GIT_INTO = frozenset({"clone", "worktree", "mv", "init", "submodule"})
_GIT_TAKES = ("-b", "-B", "-o", "-u", "-c", "-j", "--branch", "--origin", "--depth", "--reference", "--config", "--filter",
              "--upload-pack", "--template", "--reason", "--name", "-C", "--git-dir", "--work-tree")  # fmt: skip


def written(words: Sequence[str]) -> Sequence[str]:
    """Words of a command that may be files which it writes or takes away, or folders into which it writes."""
    if not words:
        return ()
    name, rest = words[0], words[1:]
    if name in _COPIERS:
        return _copied(name, rest)
    if name in _REMOVERS:
        return [word for word in rest if not word.endswith(".lock")]
    found = list(rest) if name in _WRITERS and not only_reads(words) else []
    if name in _INTO and not _packs(name, rest):
        found += _into(_INTO[name], rest)
    return (*found, *_by_git(rest)) if name == "git" else found


def targets(words: Sequence[str]) -> Sequence[str]:
    """The words that say where the output goes."""
    if words and words[0] in _COPIERS:
        return _copied(words[0], words[1:])[:1]
    return words[1:] if words and words[0] == "tee" else ()


def _copied(name: str, rest: Sequence[str]) -> list[str]:
    """Where it copies to, first the word itself, then each file in that folder."""
    into, operands = "", list[str]()
    named = name in ("cp", "mv", "ln", "install")
    words = iter(rest)
    for word in words:
        if named and (word == "--target-directory" or re.fullmatch(r"-[a-zA-Z]*t", word)):
            into = next(words, "")
        elif named and (match := re.match(r"(?:-t|--target-directory=)(.+)", word)):
            into = match[1]
        elif word in _COPIERS[name]:
            next(words, "")
        elif not word.startswith("-"):
            operands.append(word)
    if not operands:
        return [into] if into else []
    alone = name == "ln" and len(operands) == 1 and not into
    sources = operands if into or alone else operands[:-1]
    goal = into or ("." if alone else operands[-1])
    inside = [
        source.rstrip("/").rpartition("/")[2] for source in sources if name != "rsync" or not source.endswith("/")
    ]
    found = [goal, *(f"{goal}/{one}" for one in inside if one not in ("", ".", "..") and not dark(one))]
    return [*found, *sources] if name in ("mv", "ln") else found


def _packs(name: str, rest: Sequence[str]) -> bool:
    """tar that makes or lists an archive: the folder is read."""
    first = "".join(rest[:1]).lstrip("-")
    modes = "--create" in rest or any(re.fullmatch(r"-[a-zA-Z]*[ctru][a-zA-Z]*", word) for word in rest)
    return name in ("tar", "bsdtar", "gtar") and (modes or (first[:1] in tuple("ctru") and first.isalpha()))


def _into(options: Sequence[str], rest: Sequence[str]) -> list[str]:
    found = list[str]()
    for place, word in enumerate(rest):
        for option in options:
            long = option.startswith("--")
            if word == option or (len(option) == 2 and re.fullmatch(rf"-[a-zA-Z]*{option[1]}", word)):
                found += rest[place + 1 : place + 2]
            elif word.startswith(f"{option}=" if long else option):
                found.append(word[len(option) + long :])
    return found


def _by_git(rest: Sequence[str]) -> list[str]:
    words, plain = iter(rest), list[str]()
    for word in words:
        if word in _GIT_TAKES:
            next(words, "")
        elif not word.startswith("-"):
            plain.append(word)
    if not plain or plain[0] not in _GIT_INTO:
        return []
    if plain[0] == "clone":
        return plain[2:] or [re.sub(r"(/|/\.git|\.git)+$", "", word).rpartition("/")[2] for word in plain[1:]]
    return plain[1:]


def is_settings(path: str) -> bool:
    """A file that makes git, a CLI or a shell run something later, or the folder of such files.

    claude 2.1 itself asks about most of them. Of what is not told, anything that it could be counts.
    """
    parts = [part for part in path.lower().replace("\\", "/").split("/") if part]
    if not parts:
        return False
    if parts[-1] in _SETTINGS_FILES or any(part in _SETTINGS_FOLDERS for part in parts):
        return True
    if not _ANY.search(path) and not _GLOB.search(path):
        return False
    return (
        _could_be(parts[-1], _SETTINGS_FILES)
        or any(_could_be(part, _SETTINGS_FOLDERS) for part in parts)
        or _inside(parts)
    )


_GLOB = re.compile(r"[*?\[]")


def _could_be(part: str, names: Iterable[str]) -> bool:
    """Some literal text is needed; and a glob at the start leaves out names that begin with a dot."""
    if not _ANY.search(part) and not _GLOB.search(part):
        return part in names
    pattern = _ANY.sub(lambda mark: "x" if mark[1] else "*", part)
    if not pattern.strip("*?"):
        return False
    hidden = part.startswith((".", UNKNOWN, QUOTED))
    return any(fnmatchcase(name, pattern) for name in names if hidden or not name.startswith("."))


def _inside(parts: Sequence[str]) -> bool:
    """After a folder that is not told."""
    place = next((place for place, part in enumerate(parts) if dark(part)), None)
    rest = [] if place is None else parts[place + 1 :]
    return bool(rest) and (_could_be(rest[0], ("hooks", "plugin", "plugins")) or _could_be(rest[-1], _WITHIN))
