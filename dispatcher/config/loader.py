"""Reading a home's models.yaml, fast when it has not changed.

The YAML parser costs more to import than everything else that `status` does, so the parsed tree is remembered as JSON
in the user's state folder - not in the home, where an archive could bring a forged one along - together with the text
it came from and the version of the program. Any doubt about it (other text, other version, other owner, broken) means
that the file is parsed again. Validation always runs: only the parsing is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import __version__, strict_yaml
from dispatcher.config import homes, regular
from dispatcher.config.homes import FILE_NAME
from dispatcher.errors import BadInput, ConfigError
from dispatcher.strict_yaml import Located

if TYPE_CHECKING:
    from dispatcher.config.model import Config


def load(home: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of a home. Raises ConfigError with file and line; trust is asked for elsewhere."""
    from dispatcher.config import room
    from dispatcher.config.build import build
    from dispatcher.config.read import Reader, Source

    environ = os.environ if environ is None else environ
    home = Path(os.path.realpath(home))
    file = home / FILE_NAME
    text = read_text(file)
    source = Source(str(file), text, environ.get("HOME") or None)
    top = Reader(source, parse(text, home, file, environ))
    config = build(top, home=home, file=file, copies_root=lambda: homes.state_folder(environ) / "copies")
    room.remember(config, text, environ)
    return config


def outline(home: Path, environ: Mapping[str, str]) -> object:
    """What models.yaml says as plain values, not validated: for TAB, which must not pay for what a value means."""
    home = Path(os.path.realpath(home))
    file = home / FILE_NAME
    return strict_yaml.to_plain(parse(read_text(file), home, file, environ))


def read_text(file: Path) -> str:
    try:
        data = regular.read(file)
    except FileNotFoundError:
        raise BadInput(
            f"there is no {FILE_NAME} in {file.parent}",
            hint="make one with `dispatcher init`, or name another folder with --home",
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(file)) from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8", file=str(file), line=line, hint="save it as UTF-8") from None


def parse(text: str, home: Path, file: Path, environ: Mapping[str, str]) -> Located:
    try:
        cache = homes.record_path(home, environ, "parsed")
    except BadInput:  # no HOME: nowhere to remember it
        return strict_yaml.parse(text, file=str(file))
    known = homes.read_own(cache)
    if isinstance(known, dict) and known.get("text") == text and known.get("program") == __version__:
        with suppress(ValueError, RecursionError):
            return strict_yaml.from_cache(known.get("tree"))
    tree = strict_yaml.parse(text, file=str(file))
    with suppress(OSError):  # only slower next time
        homes.write_own(cache, {"program": __version__, "text": text, "tree": strict_yaml.to_cache(tree)})
    return tree
