"""The gate on paths reads its patterns as .gitignore does."""

from __future__ import annotations

import pytest

from dispatcher.errors import Refused
from dispatcher.repository.globs import outside


@pytest.mark.parametrize(
    ("patterns", "path", "allowed"),
    [
        ([], "anything", True),
        (["tests/**"], "tests/unit/test_a.py", True),
        (["tests/**"], "src/tests/a.py", False),
        (["tests/**"], "tests.py", False),
        (["tests/"], "tests/unit/deep/a.py", True),
        (["docs/*.md"], "docs/a.md", True),
        (["docs/*.md"], "docs/inner/a.md", False),
        (["*.md"], "docs/inner/a.md", True),
        (["/*.md"], "docs/a.md", False),
        (["src/**/*.py"], "src/a.py", True),
        (["src/**/*.py"], "src/x/y/a.py", True),
        (["src/**/*.py"], "src/x/y/a.txt", False),
        (["src/**", "!src/vendor/"], "src/vendor/a.c", False),
        (["**/conftest.py"], "conftest.py", True),
        (["a?.txt"], "ab.txt", True),
        (["a?.txt"], "a/.txt", False),
        (["README.md"], "readme.md", False),
        (["src/**"], "src/\udcff -x\n#.py", True),
        (["src/**"], "../src/a.py", False),
    ],
)
def test_what_may_change(patterns: list[str], path: str, allowed: bool) -> None:
    assert outside([path], patterns) == (() if allowed else (path,))


def test_a_pattern_without_meaning_is_refused() -> None:
    with pytest.raises(Refused, match="touch"):
        outside(["a"], ["!"])
