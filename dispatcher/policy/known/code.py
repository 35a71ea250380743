# ruff: noqa: E501, SIM102, RUF021  # conditions on words
"""Code that is fetched and run, and code for an interpreter that stands in the command itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dispatcher.policy.known.judged import FINE, Judged
from dispatcher.policy.shell import ADDRESS, QUOTED, SHELLS, UNKNOWN, Command

_FETCHERS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https", "httpie", "lynx", "links", "w3m", "nc", "ncat",
                       "socat", "ssh", "ftp", "scp", "gh", "gsutil", "aws"})  # fmt: skip
CODE: Mapping[str, tuple[str, ...]] = {
    "python": ("-c",), "python2": ("-c",), "python3": ("-c",), "pypy3": ("-c",), "perl": ("-e", "-E"),
    "ruby": ("-e",), "node": ("-e", "--eval", "-p", "--print"), "nodejs": ("-e",), "deno": ("eval",), "bun": ("-e",),
    "php": ("-r",), "lua": ("-e",), "osascript": ("-e",), "awk": (), "gawk": (), "mawk": (),
}  # fmt: skip


def runs_input(name: str, rest: Sequence[str], command: Command) -> Judged:
    """A shell that runs what a pipe gives it; an interpreter that runs what was fetched."""
    fetched = any(words and (words[0] in _FETCHERS or plain_name(words[0]) in _FETCHERS) for words in command.feeders)
    if name in SHELLS and tuple(rest[:1]) == ("(stdin)",):
        if fetched:
            return ("fetched",), f"{name} runs what was fetched"
        return (("unclear",), f"what {name} runs comes from a pipe or a file") if command.reads_pipe else FINE
    if plain_name(name) in CODE and fetched and not _awk(name):
        runs = [word for word in rest if not word.startswith("-") or word == "-"]
        if not runs or runs[0] in ("-", "/dev/stdin"):
            if not any(word in ("-m", "-c", "-e", "-n", "-p", "-ne", "-pe") for word in rest):
                return ("fetched",), f"{name} runs what was fetched"
    if name in SHELLS or name in (".", "source"):
        if any(QUOTED in word or UNKNOWN in word for word in rest[:1]):
            return ("unclear",), f"what {name} runs cannot be told"
    return FINE


_ADDRESS = re.compile(r"(?:npm:|git\+)?https?://|git\+\w+:|git@|github:|gist:|gitlab:")
FETCHING: Mapping[str, tuple[str, ...]] = {  # program -> verbs that run a package or a file; an empty one: no verb
    "deno": ("run", "eval", "test", "x"), "npx": ("",), "bunx": ("",), "pnpx": ("",), "uvx": ("",), "bun": ("run", "x"),
    "pipx": ("run",), "npm": ("exec", "x", "create", "init"), "pnpm": ("dlx", "create"), "yarn": ("dlx", "create"),
    "uv": ("run", "tool"), "nix": ("run", "shell", "develop"), "node": ("",), "tsx": ("",),
}  # fmt: skip


def address(name: str, rest: Sequence[str]) -> Judged:
    """A program that runs what stands at an address."""
    verbs = FETCHING[name]
    started = "" in verbs or any(word in verbs for word in rest[:2])
    asked = rest if name in ("npx", "uvx") else rest[:4]
    found = any(_ADDRESS.match(word) for word in asked) or (name == "npx" and any(map(ADDRESS.match, rest[:1])))
    return (("fetched",), f"{name} runs what it fetches from an address") if started and found else FINE


def fetched_files(words: Sequence[str], writes: Sequence[str], feeders: Sequence[Sequence[str]]) -> list[str]:
    """Names of files that get what this command has fetched."""
    if not words or (words[0] not in _FETCHERS and not any(one and one[0] in _FETCHERS for one in feeders)):
        return []
    found = list(writes)
    if words[0] == "tee":
        found += words[1:]
    elif words[0] in ("curl", "wget", "aria2c"):
        found += _saved(words)
    return [name for name in (path.rstrip("/").rpartition("/")[2] for path in found) if name and name != "null"]


def _saved(words: Sequence[str]) -> list[str]:
    given = {"curl": ("o", "--output"), "wget": ("O", "--output-document"), "aria2c": ("o", "--out")}[words[0]]
    named = list[str]()
    for place, word in enumerate(words):
        if word == given[1] or re.fullmatch(rf"-[a-zA-Z]*{given[0]}", word):
            named += words[place + 1 : place + 2]
        elif word.startswith(f"{given[1]}=") or re.match(rf"-{given[0]}.", word):
            named.append(word.partition("=")[2] or word[2:])
    remote = words[0] != "curl" or any(re.match(r"--remote-name|-[a-zA-Z]*O", word) for word in words)
    if remote and not named:
        named = [re.split(r"[?#]", word)[0] for word in words[1:] if not word.startswith("-") and "/" in word]
    return named


def runs_file(words: Sequence[str], names: Sequence[str]) -> bool:
    """Whether it starts one of these files: itself, or with a shell or an interpreter."""
    if not words or not names:
        return False
    name = plain_name(words[0])
    if words[0] in names:
        return True
    if name not in SHELLS and name not in (".", "source", "deno", "bun", "tsx", "ts-node") and name not in CODE:
        return False
    return any(word.rpartition("/")[2] in names for word in words[1:4] if not word.startswith("-"))


def _awk(name: str) -> bool:
    return name in ("awk", "gawk", "mawk")


def plain_name(name: str) -> str:
    return re.sub(r"^(python|perl|ruby|php|lua)[\d.]+$", r"\1", name)


_STARTS = re.compile(
    r"\b(system|popen|subprocess|exec[lv]?[pe]*|spawn\w*|child_process|execFile\w*|execSync|Process|rmtree|rmSync|rmdirSync"
    r"|removedirs|FileUtils|urlopen|urllib|requests|httpx|http\.client|https?\.(get|request)|fetch\(|socket|Net::HTTP|LWP"
    r"|qx|pty|__import__|eval|shell_exec|passthru|proc_open|fsockopen|IO\.popen|Open3)\b|`"
)


def inline_code(name: str, rest: Sequence[str]) -> Judged:
    options = CODE[name]
    if _awk(name):
        codes = [word for word in rest if "system" in word or "getline" in word or "| " in word and '"' in word]
        return (("unclear",), f"{name} starts other programs") if any("system" in code for code in codes) else FINE
    for place, word in enumerate(rest):
        joined = next((one for one in options if word.startswith(one) and len(word) > len(one) and len(one) == 2), None)
        short = re.fullmatch(r"-[A-Za-z]*[ceErp]", word) is not None and any(one[-1] == word[-1] for one in options)
        if word in options or short:
            code = " ".join(rest[place + 1 : place + 2])
        elif joined:
            code = word[len(joined) :]
        else:
            continue
        if UNKNOWN in code or QUOTED in code or _STARTS.search(code):
            return ("unclear",), f"code for {name} that starts programs, deletes or talks to the network"
    return FINE
