# ruff: noqa: SIM905  # tables of names
"""Variables and options that name a program which a well-known one then starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dispatcher.policy.known.judged import FINE, Judged
from dispatcher.policy.shell import QUOTED, SHELLS, UNKNOWN

HARMLESS = frozenset({"", "true", ":", "false", "cat", "echo", "less", "/bin/true", "/usr/bin/true", "/dev/null", "0"})
"""Values that make a program start nothing of its own."""

_NAMES = frozenset(
    """LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV PROMPT_COMMAND VISUAL EDITOR PAGER MANPAGER LESSOPEN LESSCLOSE
    BROWSER PERL5OPT PERL5DB RUBYOPT JAVA_TOOL_OPTIONS RSYNC_RSH CVS_RSH SVN_SSH SSH_ASKPASS SUDO_ASKPASS TAR_OPTIONS
    MAKEFLAGS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS
    GIT_PROXY_COMMAND GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM
    GIT_TEMPLATE_DIR GIT_EXEC_PATH NODE_OPTIONS PYTHONSTARTUP""".split()
)
_FINE: Mapping[str, str] = {  # what else is no program
    "NODE_OPTIONS": r"(?!.*(^|\s)(-r|--require|--import|--(experimental-)?loader)\b)",
    "MAKEFLAGS": r"-?-?(j\d*|k|s|jobs=\d+|silent|no-print-directory)(\s+-?-?j\d*)?$",
    "JAVA_TOOL_OPTIONS": r"(?!.*-(javaagent|agentlib|agentpath|XX:OnError|XX:OnOutOfMemoryError))",
    "RUBYOPT": r"-[wW]",
}


def watched(name: str) -> bool:
    return name in _NAMES or name.startswith("GIT_CONFIG_KEY_")


def variable(name: str, value: str) -> Judged:
    if value.strip() in HARMLESS or (name in _FINE and _told(value) and re.match(_FINE[name], value)):
        return FINE
    return ("unclear",), f"{name} names a program that another one starts"


def _told(value: str) -> bool:
    return UNKNOWN not in value and QUOTED not in value


_EDITS = r".*(!|system|term|jobstart|\b(lua|luaf\w*|py\w*|perl\w*|ruby\w*|source|so)\b)"
_PACKS = r"(?!(zstd(mt)?|unzstd|p?gzip|pigz|p?bzip2|p?xz|lz4|lzip|lzma|lzop|brotli|zcat)(\s|$))"
_VIM = {"-c": _EDITS, "--cmd": _EDITS, "+": _EDITS, "-S": ""}
_TAR = {"--to-command": "", "--checkpoint-action": "exec", "--use-compress-program": _PACKS, "-I": _PACKS,
        "--info-script": "", "--new-volume-script": "", "--rsh-command": "", "--rmt-command": ""}  # fmt: skip
OPTIONS: Mapping[str, Mapping[str, str]] = {  # program -> option -> the values that count, as a pattern
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "vimdiff", "gvim"), _VIM),
    "emacs": {"--eval": "", "--execute": "", "-f": "", "--funcall": ""},
    "less": {"+": ".*!"}, "more": {"+": ".*!"}, "man": {"-P": "", "--pager": "", "-H": ""},
    "tar": _TAR, "bsdtar": _TAR, "gtar": _TAR,
    "sort": {"--compress-program": _PACKS}, "zip": {"-TT": "", "--unzip-command": ""},
    "make": {"SHELL=": "shell", ".SHELLFLAGS=": "", "--eval": ""},
    "gmake": {"SHELL=": "shell", ".SHELLFLAGS=": "", "--eval": ""},
    "split": {"--filter": ""}, "rg": {"--pre": "", "--hostname-bin": ""},
    "gdb": {"-ex": "", "--eval-command": "", "-x": ""},
    "gcc": {"-wrapper": ""}, "g++": {"-wrapper": ""}, "ack": {"--pager": ""}, "bat": {"--pager": ""},
    "tcpdump": {"-z": ""}, "rsync": {"-e": r"(?!ssh\b)", "--rsh": r"(?!ssh\b)", "--rsync-path": ""},
    "tmux": {"new": "", "new-session": "", "send-keys": "", "send": "", "split-window": "", "run-shell": "", "run": ""},
    "screen": {"-dm": "", "-dmS": "", "-X": ""},
}  # fmt: skip


def option(name: str, rest: Sequence[str]) -> Judged:
    """An option of this program that names another one."""
    table = OPTIONS[name]
    for place, word in enumerate(rest):
        for wanted, counts in table.items():
            value = _value(word, wanted, rest[place + 1 : place + 2])
            if value is None:
                continue
            told = _told(value)
            known_shell = counts == "shell" and told and value.rpartition("/")[2] in SHELLS
            if not known_shell and (not told or counts == "shell" or re.match(counts, value, re.DOTALL)):
                return ("unclear",), f"{name} with {wanted.rstrip('=')} starts a program"
    return FINE


def _value(word: str, wanted: str, following: Sequence[str]) -> str | None:
    if word == wanted and not wanted.endswith(("=", "+")):
        return following[0] if following else ""
    if wanted.startswith("--"):
        return word[len(wanted) + 1 :] if word.startswith(f"{wanted}=") else None
    joined = wanted.endswith(("=", "+")) or (len(wanted) == 2 and wanted.startswith("-"))
    return word[len(wanted) :] if joined and word.startswith(wanted) else None
