"""What well-known programs do with their arguments: leave the machine, destroy, run what they fetch, or only read.

Tables of the field's usual tools, a file for each thing they may do. A program that is in none of them counts as
harmless, because a coding task starts dozens of unknown ones; a guarded program whose decisive word only the run will
know does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from dispatcher.policy import shell
from dispatcher.policy.known import code, files, git, network, variables, verbs
from dispatcher.policy.known.files_changed import dark, is_settings, only_reads, targets, written
from dispatcher.policy.known.judged import FINE, Judged
from dispatcher.policy.shell import Command

__all__ = ["dark", "is_settings", "judge", "only_reads", "targets", "watched", "written"]

watched = variables.watched


def judge(command: Command) -> Judged:
    """Tags of one command, and what is to be said about it."""
    if not command.words:
        return FINE
    name, rest = command.words[0], command.words[1:]
    if name == shell.VARIABLE:
        return variables.variable(*rest)
    if name in variables.OPTIONS and (found := variables.option(name, rest)) != FINE:
        return found
    if (found := code.runs_input(name, rest, command)) != FINE:
        return found
    if name in files.DATABASES and (found := files.database(name, rest, command)) != FINE:
        return found
    if name in code.FETCHING and (found := code.address(name, rest)) != FINE:
        return found
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest, command)
    if name.startswith("mkfs"):
        return ("destroys",), f"{name} destroys a file system"
    if name in verbs.ALWAYS:
        tag, why = verbs.ALWAYS[name]
        return (tag,), f"{name} {why}"
    if name in verbs.VERBS:
        return verbs.verb(name, rest)
    if name in network.HOSTED and any(map(network.elsewhere, (*rest, *map("".join, pairwise(rest))))):
        return ("leaves",), f"{name} talks to another host"
    if name in code.CODE:
        return code.inline_code(name, rest)
    return FINE


def _inner(text: str) -> Judged | None:
    try:
        found = [judge(command) for command in shell.read(text, watched)]
    except (shell.NotUnderstood, RecursionError):
        return None
    return next((one for one in found if one != FINE), FINE)


def _git(rest: Sequence[str], _: Command) -> Judged:
    return git.git(rest, _inner)


def _python(rest: Sequence[str], command: Command) -> Judged:
    if len(rest) > 1 and rest[0] == "-m":
        if rest[1] == "dispatcher":
            return verbs.dispatcher(rest[2:], command)
        if (rest[1] in ("twine", "poetry", "flit", "hatch", "build") and "upload" in rest) or "publish" in rest[2:3]:
            return ("leaves",), f"python -m {rest[1]} publishes"
    return code.inline_code("python", rest)


_SPECIAL: Mapping[str, Callable[[Sequence[str], Command], Judged]] = {
    "git": _git, "rm": files.rm, "find": files.find, "fd": files.find, "fdfind": files.find, "dd": files.dd,
    "rsync": network.rsync, "scp": network.scp, "curl": network.curl, "wget": network.wget,
    **dict.fromkeys(("http", "https", "xh", "xhs", "httpie", "curlie"), network.httpie),
    **dict.fromkeys(("chmod", "chown", "chgrp"), files.modes), "kill": files.kill,
    **dict.fromkeys(("docker", "podman"), network.container),
    "dispatcher": verbs.dispatcher,
    **dict.fromkeys(("python", "python2", "python3", "python3.11", "python3.12", "python3.13"), _python),
}  # fmt: skip
