"""Counts in words, and that no sentence counts without them: `1 files` is what a person sees first."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import dispatcher
from dispatcher.words import of, plural


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (plural(0, "file"), "0 files"),
        (plural(1, "file"), "1 file"),
        (plural(1000, "row"), "1,000 rows"),
        (plural(1, "process", "processes"), "1 process"),
        (plural(2, "process", "processes"), "2 processes"),
        (of(1, 1, "check"), "1 of 1 check"),
        (of(1, 12, "attempt"), "1 of 12 attempts"),
    ],
)
def test_counts(said: str, words: str) -> None:
    assert said == words


THINGS = (  # those that are no verbs: `git runs` is no count
    "approvals|attempts|branches|candidates|commits|copies|credentials|days|entries|errors|events|failures|files|hours|"
    "lines|minutes|pages|processes|refs|repositories|results|routes|rows|rules|slots|tasks|tries|words|workers"
)
_COUNTED = re.compile(rf"^ (?:of )?(?:(?!has|that|for)[a-z]+ )?(?:{THINGS})\b")
NO_COUNT = {  # what stands before it is a name or never 1
    "failures in a row without a success",
    "tasks",  # `no route for medium tasks`
}


def _counted(tree: ast.AST) -> list[tuple[int, str]]:
    """Texts that follow a value within an f-string and begin with things."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                said = text.value if isinstance(text, ast.Constant) else ""
                if isinstance(value, ast.FormattedValue) and isinstance(said, str) and _COUNTED.match(said):
                    found.append((node.lineno, said))
    return found


def test_every_count_of_things_is_made_by_the_helper() -> None:
    root = Path(dispatcher.__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}: ...{text}"
        for path in sorted(root.rglob("*.py"))
        for line, text in _counted(ast.parse(path.read_text(encoding="utf-8")))
        if not any(text.strip() == known or text.strip().startswith(f"{known};") for known in NO_COUNT)
    ]
    assert not found, "\n".join(found)
