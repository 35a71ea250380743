# ruff: noqa: E501, SIM905  # tables of names
"""What git is asked for: to send, to destroy, to run a command, to set one for later, or only to look."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from dispatcher.policy.known.judged import FINE, Judged, has_any, has_flag
from dispatcher.policy.known.variables import HARMLESS
from dispatcher.policy.shell import QUOTED, UNKNOWN

Inner = Callable[[str], Judged | None]  # judges a text that git gives to a shell; None: it cannot be understood

_TAKES = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env",
              "--attr-source")  # fmt: skip
_SENDS = frozenset({"push", "send-pack", "http-push", "send-email", "imap-send", "cvsexportcommit", "daemon",
                        "instaweb"})  # fmt: skip
_SENDS_SUB = {"subtree": ("push",), "lfs": ("push",), "svn": ("dcommit", "set-tree", "commit-diff", "branch", "tag"),
                  "p4": ("submit",), "annex": ("sync", "copy", "move", "drop"), "remote": (), "flow": ("publish",)}  # fmt: skip
_KNOWN = frozenset(
    """add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph commit-tree
    config count-objects credential describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch
    filter-branch fmt-merge-msg for-each-ref format-patch fsck gc get-tar-commit-id grep gui hash-object help index-pack
    init interpret-trailers log ls-files ls-remote ls-tree maintenance merge merge-base merge-file merge-index merge-tree
    mergetool mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune pull range-diff read-tree rebase reflog
    remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref
    sparse-checkout stage stash status stripspace submodule subtree switch symbolic-ref tag unpack-objects update-index
    update-ref update-server-info var verify-commit verify-tag version whatchanged worktree write-tree lfs svn p4 flow annex
    bugreport diagnose backfill for-each-repo""".split()
)


def git(rest: Sequence[str], inner: Inner) -> Judged:
    at = 0
    while at < len(rest) and (rest[at].startswith("-") or rest[at][:1] in (UNKNOWN, QUOTED)):
        word = rest[at]
        if word[:1] in (UNKNOWN, QUOTED):
            return ("unclear",), "which git command it is cannot be told"
        given = rest[at + 1] if word == "-c" and at + 1 < len(rest) else ""
        if _starts_later(given):
            return ("unclear",), f"git with its own {given.partition('=')[0]}"
        if word.startswith("--config-env") or word.startswith("--exec-path="):
            return ("unclear",), f"git with {word.partition('=')[0]}"
        at += 2 if word in _TAKES else 1
    if at >= len(rest):
        return FINE
    sub, args = rest[at], rest[at + 1 :]
    if UNKNOWN in sub or QUOTED in sub:
        return ("unclear",), "which git command it is cannot be told"
    return _command(sub, args, inner)


def _command(sub: str, args: Sequence[str], inner: Inner) -> Judged:
    if sub in _SENDS:
        return ("leaves",), f"git {sub}"
    if sub.startswith("remote-"):
        return ("leaves",), f"git {sub}"
    if sub not in _KNOWN:
        return ("unclear",), f"git {sub} is an alias or a program of its own"
    plain = [word for word in args if not word.startswith("-")]
    if plain and plain[0] in _SENDS_SUB.get(sub, ()):
        return ("leaves",), f"git {sub} {plain[0]}"
    if sub in _SENDS_SUB and plain and (UNKNOWN in plain[0] or QUOTED in plain[0]):
        return ("unclear",), f"what git {sub} does cannot be told"
    if sub == "clean" and not has_flag(args, "n", "--dry-run"):
        return ("destroys",), "git clean deletes files that are in no commit"
    if sub in ("filter-branch",) or (sub == "reflog" and plain[:1] in (["expire"], ["delete"])):
        return ("destroys",), f"git {sub} takes away history"
    return _setting(args, plain) if sub == "config" else _runs(sub, args, inner)


_RUN_LATER = re.compile(
    r"(?i)alias\.|core\.(sshcommand|fsmonitor|hookspath|pager|editor|askpass|gitproxy|alternaterefscommand)|pager\."
    r"|diff\.external|diff\..*\.(command|textconv)|merge\..*\.driver|filter\..*\.(clean|smudge|process)|sequence\.editor"
    r"|gpg\.(.*\.)?program|interactive\.difffilter|uploadpack\.packobjectshook|remote\..*\.(uploadpack|receivepack|vcs)"
    r"|include(if\..*)?\.path|init\.templatedir|protocol\.ext|submodule\..*\.update|trailer\..*\.(cmd|command)"
    r"|gpg\.ssh\.defaultkeycommand|.*\.(cmd|helper|path)$|credential\.helper|url\..*insteadof"
)
"""Settings that name a program."""
_NO_PROGRAM = frozenset({*HARMLESS, "store", "cache", "manager", "osxkeychain", "checkout", "merge", "rebase", "none"})
_OPTIONS: Mapping[str, tuple[str, ...]] = {  # options that name a program, or folders of programs
    **dict.fromkeys(("fetch", "pull", "ls-remote", "fetch-pack"), ("--upload-pack", "--exec")),
    "clone": ("--upload-pack", "-u", "--template"), "init": ("--template",), "archive": ("--remote", "--exec"),
    "grep": ("-O", "--open-files-in-pager"), "difftool": ("-x", "--extcmd"), "help": ("-w", "--web"),
}  # fmt: skip


def _starts_later(setting: str) -> bool:
    name, _, value = setting.partition("=")
    return _RUN_LATER.match(name) is not None and value not in _NO_PROGRAM


def _option(sub: str, args: Sequence[str]) -> str:
    """The option of this command that names a program."""
    for place, word in enumerate(args):
        if word == "--":
            break
        for option in _OPTIONS.get(sub, ()):
            long = option.startswith("--")
            if word == option or (word.startswith(f"{option}=") if long else word.startswith(option)):
                value = word[len(option) :].lstrip("=") or ("" if "=" in word else "".join(args[place + 1 : place + 2]))
                if value not in HARMLESS or (not value and "=" not in word):
                    return option
        if sub == "clone" and word in ("-c", "--config") and _starts_later("".join(args[place + 1 : place + 2])):
            return word
        if sub == "clone" and word.startswith("--config=") and _starts_later(word[9:]):
            return "--config"
    return ""


_GETS = ("--get", "--get-all", "--get-regexp", "--list", "-l", "--unset")


def _setting(args: Sequence[str], plain: Sequence[str]) -> Judged:
    names = [word for word in plain if "." in word]
    if not any(map(_RUN_LATER.match, names)) or has_any(args, _GETS) or len(plain) < 2 or plain[-1] in _NO_PROGRAM:
        return FINE
    return ("unclear",), f"git config {names[0]} runs something later"


def _runs(sub: str, args: Sequence[str], inner: Inner) -> Judged:
    """git commands that take a command for a shell."""
    if option := _option(sub, args):
        return ("unclear",), f"git {sub} {option} names a program or another host"
    opened = {"rebase": ("-x", "--exec"), "submodule": ("foreach",), "bisect": ("run",), "for-each-repo": ()}
    if sub in opened and any(word in opened[sub] or word.startswith("--exec=") for word in args):
        place = next(n for n, word in enumerate(args) if word in opened[sub] or word.startswith("--exec="))
        text = args[place].partition("=")[2] if "=" in args[place] else " ".join(args[place + 1 :])
        return inner(text) or (("unclear",), f"what git {sub} runs cannot be understood")
    if any("ext::" in word for word in args):
        return ("unclear",), "a git address that runs a program"
    return FINE
