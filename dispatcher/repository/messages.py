"""Raw commit objects: how trailers come into a message and new parents into a header, byte for byte.

git's own `interpret-trailers` can run commands of the configuration, and one process per commit is slow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TRAILER = re.compile(rb"[A-Za-z0-9][A-Za-z0-9-]*: ?\S")


def signed(raw: bytes) -> bool:
    """Whether a commit carries a signature, which any change of it would break."""
    header = raw.partition(b"\n\n")[0]
    return any(line.startswith((b"gpgsig ", b"gpgsig-sha256 ")) for line in header.split(b"\n"))


def rewritten(raw: bytes, parents: Mapping[str, str], trailers: Mapping[str, str]) -> bytes:
    """The commit with other parents (old id -> new id; the rest stay) and with trailers at the end of its message."""
    header, _, message = raw.partition(b"\n\n")
    lines = []
    for line in header.split(b"\n"):
        if line.startswith(b"parent "):
            old = line[7:].decode("ascii")
            line = b"parent " + parents.get(old, old).encode("ascii")
        lines.append(line)
    return b"\n".join(lines) + b"\n\n" + with_trailers(message, trailers)


def with_trailers(message: bytes, trailers: Mapping[str, str]) -> bytes:
    """Appended to the last paragraph when that is made of trailers, else as a paragraph of their own; never twice."""
    body = message.rstrip(b"\n ")
    last = body.rpartition(b"\n\n")[2] if b"\n\n" in body else b""
    present = last.split(b"\n") if last and _is_block(last) else []
    clean = {key: " ".join(value.split()) for key, value in trailers.items()}
    wanted = [f"{key}: {value}".encode() for key, value in clean.items() if value]
    new = [line for line in wanted if line not in present]
    if not new:
        return message
    return body + (b"\n" if present else b"\n\n") + b"\n".join(new) + b"\n"


def _is_block(paragraph: bytes) -> bool:
    lines = paragraph.split(b"\n")
    return bool(_TRAILER.match(lines[0])) and all(_TRAILER.match(line) or line[:1] in b" \t" for line in lines)
