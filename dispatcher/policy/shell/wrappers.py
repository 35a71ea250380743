"""Programs that run other programs: wrappers such as sudo, env and xargs, shells that are given a text, find -exec.

What they run is added to the state in their place; of a wrapper itself nothing is left.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from dispatcher.policy.shell.shapes import ASSIGNMENT, QUOTED, UNKNOWN, Command, NotUnderstood, State

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"})

# options of a wrapper that take a word of their own; the program comes after all options
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "command": (), "builtin": (), "exec": ("-a",), "nohup": (), "setsid": (), "time": ("-o", "-f"),
    "nice": ("-n", "--adjustment"), "ionice": ("-c", "-n", "-p"), "stdbuf": ("-i", "-o", "-e"),
    "timeout": ("-s", "--signal", "-k", "--kill-after"), "sudo": ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U"),
    "doas": ("-u", "-C"), "chroot": (), "unshare": (), "strace": ("-o", "-e", "-p", "-s"), "ltrace": ("-o", "-e"),
    "xargs": ("-I", "-i", "-n", "-L", "-P", "-d", "-E", "-a", "-s", "--max-args", "--max-procs", "--delimiter",
              "--replace", "--arg-file"),
    "parallel": ("-j", "--jobs", "-a", "--arg-file", "-I", "-n", "-N", "--delay"),
    "flock": ("-w", "-E", "--timeout"), "watch": ("-n", "-d", "--interval"), "busybox": (), "toybox": (),
    "caffeinate": ("-t",), "chronic": (), "ts": (), "unbuffer": (), "catchsegv": (), "faketime": (),
    "firejail": (), "fakeroot": (), "dbus-run-session": (), "xvfb-run": ("-s", "-n"), "cpulimit": ("-l",),
    "taskset": (), "numactl": (), "prlimit": (), "setarch": (), "runuser": ("-u", "-g"), "gosu": (), "su-exec": (),
    "systemd-run": ("-p", "--unit", "-u"), "start-stop-daemon": (), "entr": (), "poetry": (), "pipenv": (), "uv": (),
    "npx": ("-p", "--package"), "bundle": (), "rtk": (), "direnv": (),
}  # fmt: skip
_SKIPS = {"timeout": 1, "chroot": 1, "flock": 1, "faketime": 1, "gosu": 1, "su-exec": 1, "taskset": 1, "setarch": 1}
ADDRESS = re.compile(r"[\w+.-]+:|[\w-][\w.-]*/[\w.-]")  # of a package, in the place of its name
_RUNNERS = {"poetry": "run", "pipenv": "run", "uv": "run", "bundle": "exec", "direnv": "exec"}
_FINDERS = ("find", "fd", "fdfind")
_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})


def unwrap(words: list[str], state: State, shared: Command) -> None:
    """Add the command, or those that it runs in turn. `shared`: what holds for each of them."""
    name, rest = words[0].rpartition("/")[2], words[1:]
    if UNKNOWN in name or QUOTED in name:
        _add(name, rest, state, shared, unclear="which program it runs cannot be told")
    elif rest and state.forwards and name in state.functions:
        unwrap(rest, state, shared)
    elif (text := _given_text(name, rest)) is not None:
        state.nested(text, name)
    elif name in SHELLS:
        _shell(name, rest, state, shared)
    elif name in (".", "source"):
        _source(name, rest, state, shared)
    elif name == "alias":
        _alias(rest, state)
    elif name in _WRAPPERS:
        _wrapper(name, rest, state, shared)
    else:
        _remember(name, rest, state)
        _add(name, rest, state, shared)
        if name in _FINDERS:
            _find(rest, state, shared)


def _add(name: str, rest: list[str], state: State, shared: Command, *, unclear: str = "") -> None:
    state.found.append(replace(shared, words=(name, *rest), unclear=unclear))


# --- what a command changes for those after it --------------------------------------------------------------------


def _remember(name: str, rest: list[str], state: State) -> None:
    if name in ("cd", "pushd", "popd", "chdir"):
        state.moved = state.moved or not rest or _leads_out(rest[-1])
        state.enter(next((word for word in rest if not word.startswith(("-", "+"))), "~" if name == "cd" else "."))
    elif name in ("export", "declare", "typeset", "local", "readonly"):
        for word in rest:
            if match := ASSIGNMENT.match(word):
                state.set(match[1], word[match.end() :])
    elif name in ("read", "mapfile", "readarray", "getopts") or (name == "printf" and "-v" in rest):
        state.variables.update({word: UNKNOWN for word in rest if word.isidentifier()})


def _leads_out(folder: str) -> bool:
    marks = UNKNOWN in folder or QUOTED in folder
    return marks or folder.startswith(("/", "~", "-")) or ".." in folder.split("/")


# --- shells -------------------------------------------------------------------------------------------------------

_STDIN = ("", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0")
_SHELL_TAKES = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")


def _given_text(name: str, rest: list[str]) -> str | None:
    """The text that a program which is no shell gives to one."""
    if name == "eval":
        return " ".join(rest)
    if name == "trap" and len(rest) > 1:
        return rest[0]
    if name in ("su", "script", "runuser") and ("-c" in rest or "--command" in rest):
        return _after(rest, ("-c", "--command"))
    return _after(rest, ("-c",)) if name == "flock" and "-c" in rest else None


def _after(words: list[str], options: tuple[str, ...]) -> str:
    place = next(number for number, word in enumerate(words) if word in options)
    if place + 1 >= len(words):
        raise NotUnderstood(f"{words[place]} without its text")
    return words[place + 1]


def _shell(name: str, rest: list[str], state: State, shared: Command) -> None:
    """`sh -c TEXT`, `sh FILE`, `sh` that reads its input."""
    at = 0
    while at < len(rest) and rest[at][:1] in ("-", "+", UNKNOWN):
        word = rest[at]
        if word in ("-", "--"):
            at += 1
            break
        if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", word):
            if at + 1 >= len(rest):
                raise NotUnderstood(f"{name} -c without its text")
            text = next((text for text in rest[at + 1 :] if not re.fullmatch(r"[-+][A-Za-z]+|--", text)), "")
            state.nested(text, f"{name} -c")
            return
        if re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*", word):
            at = len(rest)
            break
        at += 2 if word in _SHELL_TAKES else 1
    _shell_file(name, rest, rest[at] if at < len(rest) else "", state, shared)


def _shell_file(name: str, rest: list[str], file: str, state: State, shared: Command) -> None:
    if file in _STDIN and shared.stdin_text is not None:
        state.nested(shared.stdin_text, f"{name} with a text")
    elif file in _STDIN:
        _add(name, ["(stdin)"], state, shared)
    elif (QUOTED in file or UNKNOWN in file) and "/" not in file[1:]:
        _add(name, rest, state, shared, unclear=f"which file {name} runs cannot be told")
    else:
        _add(name, rest, state, shared)


def _source(name: str, rest: list[str], state: State, shared: Command) -> None:
    file = rest[0] if rest else ""
    if file == "/dev/stdin" and shared.stdin_text is not None:
        state.nested(shared.stdin_text, name)
    elif file in (UNKNOWN, QUOTED, "", "/dev/stdin"):
        _add(name, rest, state, shared, unclear=f"what {name} runs cannot be told")
    else:
        _add(name, rest, state, shared)


def _alias(rest: list[str], state: State) -> None:
    for word in rest:
        _, sign, value = word.partition("=")
        if sign:
            state.nested(value, "alias")


# --- wrappers -----------------------------------------------------------------------------------------------------


def _wrapper(name: str, rest: list[str], state: State, shared: Command) -> None:
    verb = _RUNNERS.get(name)
    if verb is not None and rest[:1] != [verb]:
        _add(name, rest, state, shared)
        return
    at, split = _past_options(name, rest, 0 if verb is None else 1, state)
    inner = rest[at + _SKIPS.get(name, 0) :]
    shared = replace(shared, folders=state.folders)
    if split is not None:
        state.nested(split, "env -S")
    elif name == "npx" and "-c" in rest:
        state.nested(_after(rest, ("-c",)), "npx -c")
    elif not inner or (name == "npx" and any(map(ADDRESS.match, rest[: at + 1]))):
        _add(name, rest, state, shared)
    elif name == "xargs":
        unwrap([*inner, UNKNOWN], state, replace(shared, reads_pipe=True))
    elif name in ("parallel", "watch") and len(inner) == 1:
        state.nested(inner[0], name)
    else:
        unwrap(inner, state, shared)


def _past_options(name: str, rest: list[str], at: int, state: State) -> tuple[int, str | None]:
    """Where the program stands; for `env -S TEXT` the command that env makes of it."""
    while at < len(rest):
        word = rest[at]
        if word == "--":
            return at + 1, None
        if name == "env" and (word.startswith(("-S", "--split-string=")) or word == "--split-string"):
            return at, _split_string(rest[at:])
        if name == "env" and (match := re.match(r"(?:-C|--chdir=)(.+)|(?:-C|--chdir)$", word)):
            state.enter(match[1] or "".join(rest[at + 1 : at + 2]))
        if word.startswith("-") and word != "-":
            at += 2 if word in _WRAPPERS[name] else 1
        elif name in ("env", "sudo", "doas") and (match := ASSIGNMENT.match(word)):
            state.assigned(match[1], word[match.end() :])
            at += 1
        else:
            break
    return at, None


def _split_string(words: list[str]) -> str:
    if words[0] in ("-S", "--split-string"):
        if len(words) == 1:
            raise NotUnderstood(f"{words[0]} without its text")
        return " ".join(words[1:])
    return " ".join([re.sub(r"^(-S|--split-string=)", "", words[0]), *words[1:]])


def _find(rest: list[str], state: State, shared: Command) -> None:
    for at, word in enumerate(rest):
        inner = list(takewhile(lambda text: text not in (";", "+"), rest[at + 1 :])) if word in _EXEC else []
        if inner:
            unwrap([UNKNOWN if text == "{}" else text for text in inner], state, shared)
