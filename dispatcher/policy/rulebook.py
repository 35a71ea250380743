"""Rules: the built-in ones, those of models.yaml and of a brief, and their form in attempt.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dispatcher.errors import BadInput
from dispatcher.policy.vocabulary import Do, Rule, Tag

BUILT_IN: tuple[Rule, ...] = (
    Rule(Do.ALLOW, "harmless"),
    Rule(Do.ASK, "leaves-the-machine", tag=Tag.LEAVES),
    Rule(Do.ASK, "cannot-be-undone", tag=Tag.DESTROYS),
    Rule(Do.ASK, "runs-fetched-code", tag=Tag.FETCHED),
    Rule(Do.ASK, "changes-settings", tag=Tag.SETTINGS),
    Rule(Do.ASK, "not-understood", tag=Tag.UNCLEAR),
    Rule(Do.ASK, "network-tool", network=True),
    Rule(Do.ASK, "mcp-tool", mcp=("*",)),
)
"""What holds without a word in models.yaml: what leaves the machine or cannot be undone waits for a person."""

OPEN: tuple[Rule, ...] = (Rule(Do.ALLOW, "tools-full"),)
"""What holds for `tools: full`: nothing is asked, unless models.yaml or the brief says so."""

LAST: tuple[Rule, ...] = (Rule(Do.DENY, "no-own-answers", tag=Tag.ANSWERS),)
"""What nobody can switch off."""

_KEYS = ("name", "tool", "command", "path", "network", "mcp", "do", "remember")


def rules(
    configured: Iterable[tuple[Mapping[str, object], str]], brief: Iterable[Mapping[str, object]], *, full: bool = False
) -> tuple[Rule, ...]:
    """All rules in order. `configured`: fields of a rule and where it stands, for errors. Raises BadInput."""
    own = [read(fields, source) for fields, source in configured]
    of_brief = [read(fields, f"rule {number} of the brief") for number, fields in enumerate(brief, start=1)]
    return (*(OPEN if full else BUILT_IN), *own, *of_brief, *LAST)


def read(fields: Mapping[str, object], source: str) -> Rule:
    """A rule as written: {tool, command, path, network, mcp, do, remember, name}; `do` left out means ask."""
    for key in fields:
        if key not in _KEYS:
            raise BadInput(f"{source}: an approval rule has no {key!r}", hint=f"known: {', '.join(_KEYS)}")
    do = str(fields.get("do", Do.ASK))
    if do not in list(Do):
        raise BadInput(f"{source}: `do` is {do!r}", hint="it is allow, ask or deny")
    remember = fields.get("remember")
    if remember not in (None, "never"):
        raise BadInput(f"{source}: `remember` can only be `never`", hint="leave it out to allow `approve --remember`")
    if fields.get("network") not in (None, True):
        raise BadInput(f"{source}: `network` can only be true", hint="leave it out for all other tools")
    command = _texts(fields.get("command"), source, "command")
    if len(command) > 1:
        raise BadInput(f"{source}: `command` is one text, such as git push", hint="write a rule for each")
    mcp = ("*",) if fields.get("mcp") is True else _texts(fields.get("mcp"), source, "mcp")
    words = tuple(command[0].split()) if command else ()
    found = Rule(
        Do(do),
        str(fields.get("name") or _named(fields)),
        tools=tuple(text.lower() for text in _texts(fields.get("tool"), source, "tool")),
        command=words,
        paths=_texts(fields.get("path"), source, "path"),
        network=fields.get("network") is True,
        mcp=mcp,
        remember=remember is None,
        source=source,
    )
    if words and found.paths:
        raise BadInput(f"{source}: `command` and `path` do not go together", hint="write two rules")
    return found


def _named(fields: Mapping[str, object]) -> str:
    about = [str(fields[key]) for key in ("tool", "command", "path", "mcp") if fields.get(key) not in (None, True)]
    return " ".join(about) or ("network" if fields.get("network") else "mcp" if fields.get("mcp") else "everything")


def _texts(value: object, source: str, key: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise BadInput(f"{source}: `{key}` must be a text or a list of texts", hint="write it in quotes")
    return tuple(str(item) for item in items)


def to_plain(rule: Rule) -> dict[str, object]:
    """For attempt.json."""
    return {**vars(rule), "do": str(rule.do), "tag": None if rule.tag is None else str(rule.tag)}


def from_plain(values: Mapping[str, object]) -> Rule:
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    tag = fields.get("tag")
    return Rule(**{**fields, "do": Do(str(fields["do"])), "tag": None if tag is None else Tag(str(tag))})  # type: ignore[arg-type]
