"""Programs that talk to other machines: whether something is sent, and to whom."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dispatcher.policy.known.judged import FINE, Judged
from dispatcher.policy.known.verbs import verb
from dispatcher.policy.shell import QUOTED, UNKNOWN, Command

_LOCAL = re.compile(r"^(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)([:/?]|$)")


def curl(rest: Sequence[str], _: Command) -> Judged:
    """Fetching is harmless, sending is not; one's own machine is neither."""
    addresses = [word for word in rest if re.match(r"https?://|ftp://|localhost|127\.", word)]
    if addresses and all(_LOCAL.match(word) for word in addresses):
        return FINE
    for word in rest:
        sends = re.fullmatch(r"--(data|data-\w+|form|form-string|upload-file|json|mail-\w+|quote|config)(=.*)?", word)
        short = re.fullmatch(r"-[a-zA-Z]*[dFTQK].*", word) is not None and not word.startswith("--")
        method = re.fullmatch(r"(-X|--request)?=?(POST|PUT|PATCH|DELETE)", word, re.IGNORECASE)
        if sends or short or method:
            return ("leaves",), "curl sends something"
        if word[:1] == UNKNOWN:
            return ("unclear",), "what curl does cannot be told"
    return FINE


def wget(rest: Sequence[str], _: Command) -> Judged:
    sends = any(re.match(r"--(post-|body-|method=(?!GET|HEAD)|use-askpass|execute)|-e", word) for word in rest)
    return (("leaves",), "wget sends something") if sends else FINE


HOSTED = frozenset({"psql", "mysql", "mariadb", "mongosh", "mongo", "redis-cli", "pg_dump", "pg_restore", "mysqldump",
                     "clickhouse-client", "cqlsh", "sqlcmd"})  # fmt: skip


def elsewhere(word: str) -> bool:
    """A host or an address that is not this machine."""
    match = re.match(r"(?:-h|--host=?)(.*)$", word) or re.match(r"\w+(?:\+\w+)?://(?:[^@/]*@)?(.*)$", word)
    if match is None:
        return False
    return not re.match(r"(localhost|127\.|/|\[?::1|$)", match[1])


def rsync(rest: Sequence[str], _: Command) -> Judged:
    if any(word.startswith(("--delete", "--remove-source")) for word in rest):
        return ("destroys",), "rsync deletes"
    return (("leaves",), "rsync to another host") if any(_remote(word) for word in rest) else FINE


def scp(rest: Sequence[str], _: Command) -> Judged:
    return (("leaves",), "scp to another host") if any(_remote(word) for word in rest) else FINE


def _remote(word: str) -> bool:
    return bool(re.match(r"[^/\s-][^/\s]*:|rsync://", word)) or word[:1] in (UNKNOWN, QUOTED)


def httpie(rest: Sequence[str], _: Command) -> Judged:
    """`http GET address` fetches; another method, fields or a file send."""
    plain = [word for word in rest if not word.startswith("-")]
    if any(_LOCAL.match(word) or re.match(r":(\d|/)", word) for word in plain[:2]):
        return FINE
    method = plain[:1] and re.fullmatch(r"(?i)post|put|patch|delete", plain[0])
    fields = any(re.match(r"[\w.\[\]-]+(:=@?|=@?|@)", word) for word in plain[1:])
    if method or fields or any(word in ("-f", "--form", "--multipart") or word.startswith("--raw") for word in rest):
        return ("leaves",), "http sends something"
    return (("unclear",), "what http does cannot be told") if any(word[:1] == UNKNOWN for word in rest) else FINE


def device(path: str) -> Judged:
    """`/dev/tcp/HOST/PORT`, which the shell itself opens."""
    own = re.match(r"/dev/\w+/(localhost|127\.[\d.]+|::1|0)(/|$)", path)
    return FINE if own else (("leaves",), f"{path} talks to another host")


_MOUNT = re.compile(
    r"(?:type=bind,)?(?:src=|source=)?(/[^/:,]*/?|/(?:etc|usr|var|root|home)/?[^/:,]*|.*/docker\.sock|~/?)[:,]"
)


def container(rest: Sequence[str], _: Command) -> Judged:
    """docker, podman: what they publish or delete, and the machine given to a container."""
    for place, word in enumerate(rest):
        apart = word in ("-v", "--volume", "--mount")
        given = "".join(rest[place + 1 : place + 2]) if apart else re.sub(r"^(-v|--\w+=)", "", word)
        if re.match(r"-v|--volume|--mount", word) and (_MOUNT.match(given) or given[:1] == UNKNOWN):
            return ("destroys",), "a container is given folders of the machine"
        if word in ("--privileged", "--pid=host"):
            return ("destroys",), f"a container with {word}"
    return verb("docker", rest)
