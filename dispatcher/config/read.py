"""Reading one value of models.yaml: its type, its range, its spelling. Every complaint names file, line and the fix.

`Reader` wraps a parsed node and the path that leads to it (`candidates.sonnet.model`), so that the code that knows
what the keys mean can be a list of one-liners.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, NoReturn, TypeVar

from dispatcher import strict_yaml
from dispatcher.errors import ConfigError
from dispatcher.strict_yaml import Located

Choice = TypeVar("Choice", bound=StrEnum)

_BYTES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
_BYTES |= {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


class Source(NamedTuple):
    """The file that is read. `home` is what `~` stands for; None when HOME is not set."""

    file: str
    text: str
    home: str | None


class Reader:
    def __init__(self, source: Source, node: Located, path: tuple[str | int, ...] = ()) -> None:
        self.source = source
        self.node = node
        self.path = path

    @property
    def where(self) -> str:
        words = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return words.removeprefix(".")

    def line(self) -> int:
        """The line of the key for a block below it, else the line of the value."""
        if isinstance(self.node.value, str | int | float) or not self.path:
            return self.node.line
        return _key_line(self.source.text, self.path) or self.node.line

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        where = f"{self.where}: " if self.path else ""
        raise ConfigError(where + message, file=self.source.file, line=self.line(), hint=hint)

    def fail_as_key(self, message: str, hint: str | None = None) -> NoReturn:
        """A complaint about the key that leads here, not about its value."""
        parent = Reader(self.source, self.node, self.path[:-1]).where
        line = _key_line(self.source.text, self.path) or self.node.line
        raise ConfigError(f"{parent}: {message}" if parent else message, file=self.source.file, line=line, hint=hint)

    # --- containers ---

    @property
    def value(self) -> object:
        return self.node.value

    def keys(self, *known: str) -> dict[str, Reader]:
        """A mapping whose keys are given; an unknown one is an error with the closest known one."""
        found = self.mapping()
        for key, child in found.items():
            if key not in known:
                child.fail_as_key(f"unknown key {key!r}", strict_yaml.closest(key, known))
        return found

    def named(self, kind: str) -> dict[str, Reader]:
        """A mapping whose keys are names that a person chose."""
        found = self.mapping()
        for key, child in found.items():
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", key):
                child.fail_as_key(
                    f"{key!r} cannot be the name of a {kind}", "use letters, digits, dot, dash, underscore"
                )
        return found

    def mapping(self) -> dict[str, Reader]:
        value = self.node.value
        if not isinstance(value, dict):
            self.fail(f"must be a mapping (key: value), is {self.kind()}")
        return {key: Reader(self.source, node, (*self.path, key)) for key, node in value.items()}

    def items(self) -> Iterator[Reader]:
        if not isinstance(self.node.value, list):
            self.fail(f"must be a list, is {self.kind()}", "write [a, b], or one `- item` a line")
        for number, node in enumerate(self.node.value):
            yield Reader(self.source, node, (*self.path, number))

    def plain(self) -> object:
        return strict_yaml.to_plain(self.node)

    def kind(self) -> str:
        match self.node.value:
            case None:
                return "empty"
            case bool(value):
                return "true" if value else "false"
            case dict():
                return "a mapping"
            case list():
                return "a list"
            case int(number) | float(number):
                return f"the number {number}"
        return "a text"

    # --- scalars ---

    def text(self) -> str:
        value = self.node.value
        if isinstance(value, dict) and len(value) == 1:
            self.fail(
                "a text with a colon and a space became a mapping",
                "take the space out (provider/model:free), or put the text in quotes",
            )
        if not isinstance(value, str):
            self.fail(
                f"must be a text, is {self.kind()}", "put it in quotes if it is one" if value is not None else None
            )
        if not value.strip():
            self.fail("is empty")
        return value

    def texts(self) -> tuple[str, ...]:
        """A list of texts, or one text."""
        return (self.text(),) if isinstance(self.node.value, str) else tuple(item.text() for item in self.items())

    def flag(self) -> bool:
        if not isinstance(self.node.value, bool):
            self.fail(f"must be true or false, is {self.kind()}")
        return self.node.value

    def number(self) -> float:
        """A number above zero."""
        value = self.node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"must be a number, is {self.kind()}")
        if value <= 0:
            self.fail(f"must be more than 0, is {value}")
        return float(value)

    def whole(self, *, least: int = 1) -> int:
        value = self.node.value
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(f"must be a whole number, is {self.kind()}")
        if value < least:
            self.fail(f"must be {least} or more, is {value}")
        return value

    def duration(self) -> float:
        """Seconds of `90s`, `45m`, `2h`, `1h30m`, `7d`. A bare number is refused: nobody remembers its unit."""
        value = self.node.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.fail(f"{value} has no unit", f"write {value}s, {value}m or {value}h")
        seconds = strict_yaml.duration(value)
        if seconds is None:
            self.fail("is not a duration", "write it like 90s, 45m, 2h or 1h30m")
        if not 0 < seconds <= strict_yaml.LONGEST:
            self.fail("must be longer than nothing and shorter than ten years")
        return seconds

    def size(self) -> int:
        """Bytes of `512MiB`, `2GiB`, `64MB`."""
        value = self.node.value
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) ?([KMGT]?i?B)", value) if isinstance(value, str) else None
        if found is None or found[2] not in _BYTES:
            self.fail("is not a size", "write it like 512MiB or 2GiB")
        return int(float(found[1]) * _BYTES[found[2]])

    def choice(self, kind: type[Choice]) -> Choice:
        return kind(self.word(*kind))

    def word(self, *known: str) -> str:
        value = self.text()
        if value not in known:
            self.fail(f"{value!r} is not one of {', '.join(known)}", strict_yaml.closest(value, known))
        return value

    def defined(self, kind: str, names: Iterable[str]) -> str:
        """A name that another part of the file must define."""
        value = self.text()
        known = tuple(names)
        if value not in known:
            self.fail(f"there is no {kind} {value!r}", strict_yaml.closest(value, known))
        return value

    def variable(self) -> str:
        """The name of an environment variable. What is no name may be a secret by mistake, so it is not repeated."""
        value = self.text()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            self.fail("must be the name of an environment variable, never its value", "for example ANTHROPIC_API_KEY")
        return value

    def path_text(self) -> str:
        return self.absolute(self.text())

    def absolute(self, text: str) -> str:
        """`~` by HOME. Relative paths are refused, since they would depend on where the program is started."""
        if text == "~" or text.startswith("~/"):
            if not self.source.home:
                self.fail("~ cannot be expanded, since HOME is not set", "set HOME, or write the whole path")
            text = self.source.home + text[1:]
        if not text.startswith("/"):
            self.fail(f"{text!r} is not an absolute path", "start it with / or ~/")
        return os.path.normpath(text)

    def url(self) -> str:
        """An http(s) address. It may hold a secret, so it is not repeated."""
        value = self.text()
        if not re.fullmatch(r"https?://[^\s/]+\S*", value):
            self.fail("must be an address that starts with http:// or https://")
        return value


def _key_line(text: str, path: tuple[str | int, ...]) -> int | None:
    """Where the last key of `path` stands. Parsed once more, since only an error asks for it."""
    import yaml

    node = yaml.compose(text.removeprefix("\ufeff"), Loader=yaml.SafeLoader)
    line = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == part), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line


def given(keys: Mapping[str, Reader], name: str) -> bool:
    """Whether there is more than a heading: everything below it may be commented out."""
    return name in keys and keys[name].value is not None
