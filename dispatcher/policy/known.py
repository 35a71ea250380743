# ruff: noqa: E501, SIM905, SIM102, RUF021, RUF007  # tables of names, and conditions on words
"""What well-known programs do with their arguments: leave the machine, destroy, run what they fetch, or only read.

A table of the field's usual tools. A program that is not in it counts as harmless, because a coding task starts dozens
of unknown ones; a guarded program whose decisive word only the run will know does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from dispatcher.policy.shell import QUOTED, SHELLS, UNKNOWN, Command

Judged = tuple[tuple[str, ...], str]  # tags of `policy.Tag`, and why
_FINE: Judged = ((), "")


def judge(command: Command) -> Judged:
    """Tags of one command, and what is to be said about it."""
    if not command.words:
        return _FINE
    name, rest = command.words[0], command.words[1:]
    if (found := _runs_input(name, rest, command)) != _FINE:
        return found
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest, command)
    if name.startswith("mkfs"):
        return ("destroys",), f"{name} destroys a file system"
    if name in _ALWAYS:
        tag, why = _ALWAYS[name]
        return (tag,), f"{name} {why}"
    if name in _VERBS:
        return _verb(name, rest)
    if name in _HOSTED and any(map(_elsewhere, (*rest, *map("".join, zip(rest, rest[1:], strict=False))))):
        return ("leaves",), f"{name} talks to another host"
    if name in _CODE:
        return _inline_code(name, rest)
    return _FINE


# --- what is fetched and run --------------------------------------------------------------------------------------

_FETCHERS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https", "httpie", "lynx", "links", "w3m", "nc", "ncat",
                       "socat", "ssh", "ftp", "scp", "gh", "gsutil", "aws"})  # fmt: skip
_CODE: Mapping[str, tuple[str, ...]] = {
    "python": ("-c",), "python2": ("-c",), "python3": ("-c",), "pypy3": ("-c",), "perl": ("-e", "-E"),
    "ruby": ("-e",), "node": ("-e", "--eval", "-p", "--print"), "nodejs": ("-e",), "deno": ("eval",), "bun": ("-e",),
    "php": ("-r",), "lua": ("-e",), "osascript": ("-e",), "awk": (), "gawk": (), "mawk": (),
}  # fmt: skip


def _runs_input(name: str, rest: Sequence[str], command: Command) -> Judged:
    """A shell that runs what a pipe gives it; an interpreter that runs what was fetched."""
    fetched = any(
        words and (words[0] in _FETCHERS or _python_version(words[0]) in _FETCHERS) for words in command.feeders
    )
    if name in SHELLS and tuple(rest[:1]) == ("(stdin)",):
        if fetched:
            return ("fetched",), f"{name} runs what was fetched"
        return (("unclear",), f"what {name} runs comes from a pipe or a file") if command.reads_pipe else _FINE
    if _python_version(name) in _CODE and fetched and not _awk(name):
        runs = [word for word in rest if not word.startswith("-") or word == "-"]
        if not runs or runs[0] in ("-", "/dev/stdin"):
            if not any(word in ("-m", "-c", "-e", "-n", "-p", "-ne", "-pe") for word in rest):
                return ("fetched",), f"{name} runs what was fetched"
    if name in SHELLS or name in (".", "source"):
        if any(QUOTED in word or UNKNOWN in word for word in rest[:1]):
            return ("unclear",), f"what {name} runs cannot be told"
    return _FINE


def _awk(name: str) -> bool:
    return name in ("awk", "gawk", "mawk")


def _python_version(name: str) -> str:
    return re.sub(r"^(python|perl|ruby|php|lua)[\d.]+$", r"\1", name)


_STARTS = re.compile(
    r"\b(system|popen|subprocess|exec[lv]?[pe]*|spawn\w*|child_process|execFile\w*|execSync|Process|rmtree|rmSync|rmdirSync"
    r"|removedirs|FileUtils|urlopen|urllib|requests|httpx|http\.client|https?\.(get|request)|fetch\(|socket|Net::HTTP|LWP"
    r"|qx|pty|__import__|eval|shell_exec|passthru|proc_open|fsockopen|IO\.popen|Open3)\b|`"
)


def _inline_code(name: str, rest: Sequence[str]) -> Judged:
    options = _CODE[name]
    if _awk(name):
        codes = [word for word in rest if "system" in word or "getline" in word or "| " in word and '"' in word]
        return (("unclear",), f"{name} starts other programs") if any("system" in code for code in codes) else _FINE
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
    return _FINE


# --- git ----------------------------------------------------------------------------------------------------------

_GIT_TAKES = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env",
              "--attr-source")  # fmt: skip
_GIT_SENDS = frozenset({"push", "send-pack", "http-push", "send-email", "imap-send", "cvsexportcommit", "daemon",
                        "instaweb"})  # fmt: skip
_GIT_SENDS_SUB = {"subtree": ("push",), "lfs": ("push",), "svn": ("dcommit", "set-tree", "commit-diff", "branch", "tag"),
                  "p4": ("submit",), "annex": ("sync", "copy", "move", "drop"), "remote": (), "flow": ("publish",)}  # fmt: skip
_GIT_KNOWN = frozenset(
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


def _git(rest: Sequence[str], _: Command) -> Judged:
    at = 0
    while at < len(rest) and (rest[at].startswith("-") or rest[at][:1] in (UNKNOWN, QUOTED)):
        word = rest[at]
        if word[:1] in (UNKNOWN, QUOTED):
            return ("unclear",), "which git command it is cannot be told"
        given = rest[at + 1] if word == "-c" and at + 1 < len(rest) else ""
        if re.match(r"(?i)alias\.|core\.(sshcommand|fsmonitor|hookspath|editor|pager)|protocol\.ext", given):
            return ("unclear",), f"git with its own {given.partition('=')[0]}"
        if word.startswith("--config-env") or word.startswith("--exec-path="):
            return ("unclear",), f"git with {word.partition('=')[0]}"
        at += 2 if word in _GIT_TAKES else 1
    if at >= len(rest):
        return _FINE
    sub, args = rest[at], rest[at + 1 :]
    if UNKNOWN in sub or QUOTED in sub:
        return ("unclear",), "which git command it is cannot be told"
    return _git_command(sub, args)


def _git_command(sub: str, args: Sequence[str]) -> Judged:
    if sub in _GIT_SENDS:
        return ("leaves",), f"git {sub}"
    if sub.startswith("remote-"):
        return ("leaves",), f"git {sub}"
    if sub not in _GIT_KNOWN:
        return ("unclear",), f"git {sub} is an alias or a program of its own"
    plain = [word for word in args if not word.startswith("-")]
    if plain and plain[0] in _GIT_SENDS_SUB.get(sub, ()):
        return ("leaves",), f"git {sub} {plain[0]}"
    if sub in _GIT_SENDS_SUB and plain and (UNKNOWN in plain[0] or QUOTED in plain[0]):
        return ("unclear",), f"what git {sub} does cannot be told"
    if sub == "clean" and not _has_flag(args, "n", "--dry-run"):
        return ("destroys",), "git clean deletes files that are in no commit"
    if sub in ("filter-branch",) or (sub == "reflog" and plain[:1] in (["expire"], ["delete"])):
        return ("destroys",), f"git {sub} takes away history"
    return _git_runs(sub, args, plain)


def _git_runs(sub: str, args: Sequence[str], plain: Sequence[str]) -> Judged:
    """git commands that take a command for a shell, or make one a setting."""
    if sub == "config":
        names = [word for word in plain if "." in word]
        if any(
            re.match(r"(?i)alias\.|core\.(sshcommand|fsmonitor|hookspath|pager|editor)|.*\.(cmd|helper)$", n)
            for n in names
        ):
            reads = _has_any(args, ("--get", "--get-all", "--get-regexp", "--list", "-l", "--unset")) or len(plain) < 2
            return _FINE if reads else (("unclear",), f"git config {names[0]} runs something later")
        return _FINE
    opened = {"rebase": ("-x", "--exec"), "submodule": ("foreach",), "bisect": ("run",), "for-each-repo": ()}
    if sub in opened and any(word in opened[sub] or word.startswith("--exec=") for word in args):
        from dispatcher.policy import shell  # the words after it are a command again

        place = next(n for n, word in enumerate(args) if word in opened[sub] or word.startswith("--exec="))
        text = args[place].partition("=")[2] if "=" in args[place] else " ".join(args[place + 1 :])
        try:
            inner = [judge(command) for command in shell.read(text)]
        except (shell.NotUnderstood, RecursionError):
            return ("unclear",), f"what git {sub} runs cannot be understood"
        return next((found for found in inner if found != _FINE), _FINE)
    if any("ext::" in word for word in args):
        return ("unclear",), "a git address that runs a program"
    return _FINE


# --- files --------------------------------------------------------------------------------------------------------

GENERATED = frozenset(
    """build dist out target node_modules .venv venv __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox .nox .cache
    coverage htmlcov .coverage .next .nuxt .turbo .parcel-cache .gradle .eggs tmp temp .tmp bin obj .terraform .dart_tool
    storybook-static .svelte-kit .hypothesis .nyc_output""".split()
)
"""Folders that tools make and make again."""


def _rm(rest: Sequence[str], command: Command) -> Judged:
    options = True
    deep, operands = False, list[str]()
    for word in rest:
        if word == "--" and options:
            options = False
        elif options and word.startswith("--"):
            deep = deep or "--recursive".startswith(word) and len(word) > 3
        elif options and word.startswith("-") and len(word) > 1:
            deep = deep or "r" in word or "R" in word or UNKNOWN in word or QUOTED in word
        else:
            operands.append(word)
            deep = deep or (options and word[:1] == UNKNOWN)
    if not deep:
        return _FINE
    if operands and not command.moved and all(_generated(word) for word in operands):
        return _FINE
    return ("destroys",), "rm deletes whole folders"


def _generated(path: str) -> bool:
    """A relative path to something that a tool made."""
    if UNKNOWN in path or QUOTED in path or path.startswith(("/", "~")) or re.search(r"[*?\[]", path):
        return False
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return False
    return parts[-1] in GENERATED or parts[-1].endswith(".egg-info")


def _find(rest: Sequence[str], command: Command) -> Judged:
    if "-delete" in rest:
        return ("destroys",), "find deletes what it finds"
    return (("unclear",), "what find runs cannot be told") if any(word == UNKNOWN for word in rest) else _FINE


def _dd(rest: Sequence[str], _: Command) -> Judged:
    targets = [word[3:] for word in rest if word.startswith("of=")]
    disks = any(t.startswith("/dev/") and t not in ("/dev/null", "/dev/stdout") or UNKNOWN in t for t in targets)
    return (("destroys",), "dd writes over a device") if disks else _FINE


def _rsync(rest: Sequence[str], _: Command) -> Judged:
    if any(word.startswith(("--delete", "--remove-source")) for word in rest):
        return ("destroys",), "rsync deletes"
    return (("leaves",), "rsync to another host") if any(_remote(word) for word in rest) else _FINE


def _scp(rest: Sequence[str], _: Command) -> Judged:
    return (("leaves",), "scp to another host") if any(_remote(word) for word in rest) else _FINE


def _remote(word: str) -> bool:
    return bool(re.match(r"[^/\s-][^/\s]*:|rsync://", word)) or word[:1] in (UNKNOWN, QUOTED)


# --- network ------------------------------------------------------------------------------------------------------

_LOCAL = re.compile(r"^(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)([:/?]|$)")


def _curl(rest: Sequence[str], _: Command) -> Judged:
    """Fetching is harmless, sending is not; one's own machine is neither."""
    addresses = [word for word in rest if re.match(r"https?://|ftp://|localhost|127\.", word)]
    if addresses and all(_LOCAL.match(word) for word in addresses):
        return _FINE
    for word in rest:
        sends = re.fullmatch(r"--(data|data-\w+|form|form-string|upload-file|json|mail-\w+|quote|config)(=.*)?", word)
        short = re.fullmatch(r"-[a-zA-Z]*[dFTQK].*", word) is not None and not word.startswith("--")
        method = re.fullmatch(r"(-X|--request)?=?(POST|PUT|PATCH|DELETE)", word, re.IGNORECASE)
        if sends or short or method:
            return ("leaves",), "curl sends something"
        if word[:1] == UNKNOWN:
            return ("unclear",), "what curl does cannot be told"
    return _FINE


def _wget(rest: Sequence[str], _: Command) -> Judged:
    sends = any(re.match(r"--(post-|body-|method=(?!GET|HEAD)|use-askpass|execute)|-e", word) for word in rest)
    return (("leaves",), "wget sends something") if sends else _FINE


_HOSTED = frozenset({"psql", "mysql", "mariadb", "mongosh", "mongo", "redis-cli", "pg_dump", "pg_restore", "mysqldump",
                     "clickhouse-client", "cqlsh", "sqlcmd"})  # fmt: skip


def _elsewhere(word: str) -> bool:
    """A host or an address that is not this machine."""
    match = re.match(r"(?:-h|--host=?)(.*)$", word) or re.match(r"\w+(?:\+\w+)?://(?:[^@/]*@)?(.*)$", word)
    if match is None:
        return False
    return not re.match(r"(localhost|127\.|/|\[?::1|$)", match[1])


# --- programs whose verb decides ----------------------------------------------------------------------------------

_ALWAYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("ssh", "sftp", "ftp", "telnet", "nc", "ncat", "netcat", "socat", "rclone", "mosh", "lftp", "tftp",
                     "sendmail", "mail", "mailx", "mutt", "msmtp", "swaks", "ansible", "ansible-playbook", "cap",
                     "heroku", "vercel", "netlify", "flyctl", "fly", "wrangler", "firebase", "serverless", "sls", "sam",
                     "eb", "surge", "now", "twine", "hub", "croc", "magic-wormhole", "wormhole", "ngrok", "cloudflared",
                     "gsutil", "azcopy", "s3cmd", "mc", "doctl", "linode-cli", "oc", "nomad", "vault", "fastlane",
                     "goreleaser", "semantic-release", "np", "release-it", "mike"),
                    ("leaves", "talks to other machines")),
    **dict.fromkeys(("shred", "wipefs", "srm", "blkdiscard", "fdisk", "parted", "sgdisk", "dropdb", "shutdown", "reboot",
                     "halt", "poweroff", "init", "telinit", "userdel", "deluser", "trash-empty", "wipe", "rimraf",
                     "del-cli"),
                    ("destroys", "cannot be undone")),
}  # fmt: skip

# verbs that only look; with `None` as the key's list every verb is fine but those in the second one
_VERBS: Mapping[str, tuple[frozenset[str] | None, frozenset[str]]] = {
    name: (None if looks is None else frozenset(looks.split()), frozenset(acts.split()))
    for name, looks, acts in (
        ("kubectl", "get describe logs version explain top api-resources api-versions cluster-info config diff wait", ""),
        ("helm", "template lint list ls get show search history status version env dependency repo create package", ""),
        ("terraform", "init plan validate fmt show output version providers graph console get test", ""),
        ("tofu", "init plan validate fmt show output version providers graph console get test", ""),
        ("pulumi", "preview version whoami about plugin", ""),
        ("cdk", "synth diff ls list doctor version init", ""),
        ("gh", "status version help browse", ""),
        ("glab", "version help", ""),
        ("aws", "help configure --version", ""),
        ("gcloud", "version help info", ""),
        ("az", "version help", ""),
        ("docker", None, "push login logout prune rmi"),
        ("podman", None, "push login logout prune rmi"),
        ("buildah", None, "push login"), ("skopeo", None, "copy delete sync login"), ("crane", None, "push copy delete"),
        ("npm", None, "publish unpublish deprecate adduser login logout owner token dist-tag access star hook team org"),
        ("pnpm", None, "publish unpublish deprecate login owner dist-tag"),
        ("yarn", None, "publish login logout owner tag npm"),
        ("bun", None, "publish"), ("deno", None, "publish deploy"), ("jsr", None, "publish"), ("lerna", None, "publish"),
        ("cargo", None, "publish yank login owner"), ("gem", None, "push yank signin owner"),
        ("poetry", None, "publish"), ("uv", None, "publish"), ("hatch", None, "publish"), ("flit", None, "publish"),
        ("pdm", None, "publish"), ("mvn", None, "deploy release:perform release:prepare"), ("gradle", None, "publish"),
        ("gradlew", None, "publish"), ("dotnet", None, "push"), ("nuget", None, "push delete"),
        ("dart", None, "publish"), ("flutter", None, "publish"), ("mix", None, "hex.publish"), ("hex", None, "publish"),
        ("luarocks", None, "upload"), ("conda", None, "upload"), ("anaconda", None, "upload"), ("vsce", None, "publish"),
        ("hg", None, "push email"), ("svn", None, "commit ci import delete copy move lock propset"), ("jj", None, "push"),
        ("bzr", None, "push"), ("fossil", None, "push sync"), ("sl", None, "push"), ("gt", None, "submit push"),
        ("systemctl", "status show list-units list-unit-files is-active is-enabled cat", ""),
        ("crontab", "-l", ""), ("at", "-l", ""),
        ("zfs", "list get", ""), ("zpool", "list status get", ""), ("lvremove", "", ""), ("vgremove", "", ""),
    )
}  # fmt: skip
_GH_LOOKS = frozenset({"view", "list", "diff", "checks", "status", "watch", "search", "download"})


def _verb(name: str, rest: Sequence[str]) -> Judged:
    looks, acts = _VERBS[name]
    plain = [word for word in rest if not word.startswith("-")]
    if not plain and looks is not None and not (set(rest) & looks) and any(word.startswith("-") for word in rest):
        harmless = all(word in ("--version", "--help", "-h", "-V") for word in rest)
        return _FINE if harmless else (("destroys",), f"{name} {' '.join(rest)}")
    if any(UNKNOWN in word or QUOTED in word for word in plain[:1]):
        return ("unclear",), f"what {name} does cannot be told"
    if looks is None:
        found = next((word for word in plain[:3] if word in acts), None)
        return (("leaves",), f"{name} {found}") if found else _FINE
    if not plain or set(rest) & looks & {"-l", "--version"}:
        return _FINE
    verb = plain[0]
    if name in ("gh", "glab") and len(plain) > 1 and plain[1] in _GH_LOOKS:
        return _FINE
    if name in ("aws", "gcloud", "az") and any(re.match(r"(describe|list|get|show|ls)\b", word) for word in plain[1:4]):
        return _FINE
    return _FINE if verb in looks else (("leaves",), f"{name} {' '.join(plain[:2])}")


def _dispatcher(rest: Sequence[str], _: Command) -> Judged:
    """A worker that answers for the person, or changes what it may do."""
    plain = [word for word in rest if not word.startswith("-")]
    if any(word in ("approve", "deny", "trust", "approvals", "release") for word in plain):
        return ("answers",), f"dispatcher {plain[0]} is for a person"
    return (("unclear",), "which command of dispatcher cannot be told") if any(UNKNOWN in w for w in rest) else _FINE


def _python(rest: Sequence[str], command: Command) -> Judged:
    if len(rest) > 1 and rest[0] == "-m":
        if rest[1] == "dispatcher":
            return _dispatcher(rest[2:], command)
        if rest[1] in ("twine", "poetry", "flit", "hatch", "build") and "upload" in rest or "publish" in rest[2:3]:
            return ("leaves",), f"python -m {rest[1]} publishes"
    return _inline_code("python", rest)


_SPECIAL: Mapping[str, Callable[[Sequence[str], Command], Judged]] = {
    "git": _git, "rm": _rm, "find": _find, "fd": _find, "fdfind": _find, "dd": _dd, "rsync": _rsync, "scp": _scp,
    "curl": _curl, "wget": _wget, "dispatcher": _dispatcher, "python": _python, "python3": _python, "python2": _python,
    "python3.11": _python, "python3.12": _python, "python3.13": _python,
}  # fmt: skip


# --- readers ------------------------------------------------------------------------------------------------------

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


def _has_flag(args: Sequence[str], letter: str, long: str) -> bool:
    return any(word == long or (re.fullmatch(r"-[a-zA-Z]+", word) and letter in word) for word in args)


def _has_any(args: Sequence[str], names: Sequence[str]) -> bool:
    return any(word in names for word in args)
