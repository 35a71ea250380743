"""Paths that a terminal opens on a click (OSC 8), where it is known to understand that; plain text everywhere else.

A terminal that does not know the sequence may print it, so the known ones are listed; FORCE_HYPERLINK=1 or 0 decides
for another.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})
_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour")
_SIGNS = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM")
_VTE = 5000  # GNOME Terminal and its kin, from 0.50 on


def understood(environ: Mapping[str, str]) -> bool:
    """Whether the terminal named by this environment knows links."""
    if (forced := environ.get("FORCE_HYPERLINK")) is not None:
        return forced != "0"
    vte = environ.get("VTE_VERSION", "")
    return (
        environ.get("TERM_PROGRAM") in _PROGRAMS
        or environ.get("TERM", "").startswith(_TERMS)
        or any(sign in environ for sign in _SIGNS)
        or (vte.isdigit() and int(vte) >= _VTE)
    )


def file(path: str, shown: str | None = None) -> str:
    """`shown` (already cleaned; default: the path, cleaned) as a link to an absolute path."""
    from dispatcher.cli.render import clean

    text = clean(path) if shown is None else shown
    if not os.path.isabs(path) or not sys.stdout.isatty() or not understood(os.environ):
        return text
    from socket import gethostname
    from urllib.parse import quote

    target = quote(path.encode("utf-8", "surrogateescape"))
    return f"\x1b]8;;file://{quote(gethostname())}{target}\x1b\\{text}\x1b]8;;\x1b\\"
