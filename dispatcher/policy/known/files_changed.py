# ruff: noqa: E501, SIM905  # tables of names
"""Which files a command may change, and which files make something run later."""

from __future__ import annotations

import re
from collections.abc import Sequence

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


_WRITERS = frozenset("cp mv tee sed install ln truncate rsync touch".split())


def written(words: Sequence[str]) -> Sequence[str]:
    """Words of a command that may be files which it writes."""
    return words[1:] if words and words[0] in _WRITERS and not only_reads(words) else ()


def is_settings(path: str) -> bool:
    """A file that makes git, a CLI or a shell run something later: claude 2.1 itself asks about most of them."""
    parts = path.lower().replace("\\", "/").split("/")
    return parts[-1] in _SETTINGS_FILES or any(part in _SETTINGS_FOLDERS for part in parts[:-1])
