"""Files that a rule names: whether a part would change one, by the texts of its paths alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from dispatcher.policy.vocabulary import Part


def touches(pattern: str, part: Part, folder: str) -> bool:
    """Whether the part would change a file that the pattern names; a text that only mentions it counts."""
    if part.kind == "read":
        return False
    wanted = posixpath.normpath(pattern)
    if any(_same_file(wanted, path, folder) for path in part.writes):
        return True
    return any(_names(wanted, text, folder) for text in part.mentions)


def _same_file(pattern: str, path: str, folder: str) -> bool:
    place = relative(path, folder)
    if fnmatchcase(place, pattern) or fnmatchcase(posixpath.normpath(path), pattern):
        return True
    last = posixpath.basename(pattern)
    if not _WILD.search(last) and posixpath.basename(place) == last:  # it may have changed the folder before
        return True
    return bool(_WILD.search(path)) and (fnmatchcase(pattern, place) or fnmatchcase(last, posixpath.basename(path)))


def _names(pattern: str, text: str, folder: str) -> bool:
    """A word that is the file, a folder above it, or a longer text (code, a patch, JSON) in which it stands."""
    value = text.partition("=")[2] if text.startswith("-") or "=" in text.split("/")[0] else text
    for word in {text, value, text[2:] if text[:1] == "-" else text}:
        if word and not word.startswith("-") and "\n" not in word and len(word) < 4096:
            if _same_file(pattern, word, folder):
                return True
            place = relative(word, folder)
            if place not in (".", "") and pattern.startswith(place + "/"):
                return True
    last = posixpath.basename(pattern)
    return len(last) > 3 and not _WILD.search(last) and last in text


_WILD = re.compile(r"[*?\[]")


def relative(path: str, folder: str) -> str:
    whole = posixpath.normpath(posixpath.join(folder, path))
    root = posixpath.normpath(folder)
    return whole[len(root) + 1 :] if whole.startswith(root.rstrip("/") + "/") else "." if whole == root else whole


def inside(path: str, roots: Iterable[str], folder: str) -> bool:
    """Whether a path lies in one of these folders, by its text."""
    whole = posixpath.normpath(posixpath.join(folder, path))
    return any(whole == root or whole.startswith(root.rstrip("/") + "/") for root in map(posixpath.normpath, roots))
