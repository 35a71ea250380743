"""The parsed file is remembered: fast when nothing changed, and never believed when anything is odd."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatcher import strict_yaml
from dispatcher.config import homes, load, room
from dispatcher.errors import ConfigError
from tests.config.samples import EXAMPLE, LEAST, environ_of, load_text

# Neither the parser nor anything heavy may be imported to read a configuration that did not change.
_HEAVY = "yaml sqlmodel sqlalchemy pydantic rich typer git alembic anyio difflib hashlib subprocess tempfile logging"


def cache_of(folder: Path) -> Path:
    return homes.record_path(folder / "home", environ_of(folder), "parsed")


def test_an_unchanged_file_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_text(tmp_path, EXAMPLE)
    parsed: list[str] = []
    real = strict_yaml.parse

    def counting(text: str, **places: Any) -> strict_yaml.Located:
        parsed.append(text)
        return real(text, **places)

    monkeypatch.setattr(strict_yaml, "parse", counting)
    assert load(tmp_path / "home", environ_of(tmp_path)) == first
    assert parsed == []
    load_text(tmp_path, EXAMPLE + "# a comment\n")
    assert parsed == [EXAMPLE + "# a comment\n"]


def test_an_error_is_the_same_from_the_cache(tmp_path: Path) -> None:
    wrong = LEAST + "limits:\n  stall:\n    10m: 1\n"
    said = []
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            load_text(tmp_path, wrong)
        said.append((caught.value.message, caught.value.line, caught.value.hint))
    assert cache_of(tmp_path).exists()
    assert said[0] == said[1]


def tree_of(text: str) -> Any:
    return strict_yaml.to_cache(strict_yaml.parse(text, file="x"))


HOSTILE = LEAST + "notify: evil\n"


@pytest.mark.parametrize(
    "change",
    [
        {"text": LEAST + " "},
        {"program": "0.0.0"},
        {"tree": None},
        {"tree": [1, 1, "map", {"credentials": "x"}]},
        {"tree": [1, 1, "map"]},
        {"tree": {}},
        {"tree": 5},
    ],
)
def test_a_cache_that_does_not_fit_is_ignored_and_replaced(tmp_path: Path, change: dict[str, Any]) -> None:
    expected = load_text(tmp_path, LEAST)
    good = json.loads(cache_of(tmp_path).read_text("utf-8"))
    cache_of(tmp_path).write_text(json.dumps({**good, "tree": tree_of(HOSTILE), **change}), encoding="utf-8")
    assert load_text(tmp_path, LEAST) == expected
    assert json.loads(cache_of(tmp_path).read_text("utf-8")) == good


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00\xff", "[" * 100_000, '{"tree": ' + "[" * 5000])
def test_a_broken_cache_is_ignored(tmp_path: Path, text: str) -> None:
    expected = load_text(tmp_path, LEAST)
    cache_of(tmp_path).write_text(text, encoding="utf-8")
    assert load_text(tmp_path, LEAST) == expected


def test_a_cache_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    load_text(tmp_path, LEAST)
    good = json.loads(cache_of(tmp_path).read_text("utf-8"))
    cache_of(tmp_path).write_text(json.dumps({**good, "tree": tree_of(HOSTILE)}), encoding="utf-8")
    cache_of(tmp_path).chmod(0o666)
    assert load_text(tmp_path, LEAST).notify is None


def test_nothing_in_the_home_is_believed_or_written(tmp_path: Path) -> None:
    """A cache beside models.yaml would let an archive bring a forged one along, with a harmless models.yaml."""
    load_text(tmp_path, LEAST)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["models.yaml"]


def test_without_a_place_for_the_cache_it_still_loads(tmp_path: Path) -> None:
    (tmp_path / "person").write_text("a file where HOME should be", encoding="utf-8")
    assert load_text(tmp_path, LEAST).roster.candidates


def test_what_is_imported_for_an_unchanged_file(tmp_path: Path) -> None:
    load_text(tmp_path, EXAMPLE)
    script = (
        "import sys; from pathlib import Path; from dispatcher.config import load, find_home, database, is_trusted\n"
        "home = Path(sys.argv[1]); load(home); database(home); is_trusted(home)\n"
        "print(*(name for name in sys.argv[2:] if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "home"), *_HEAVY.split()],
        env=environ_of(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == []


# --- the part for `status` ---


def room_of(folder: Path) -> Path:
    return homes.record_path(folder / "home", environ_of(folder), "room")


def test_the_room_that_status_asks_for_is_what_the_file_says(tmp_path: Path) -> None:
    limits = "limits: {max_load_per_core: 1.5, min_free_memory: 3GiB, min_free_disk: 4GiB}\n"
    environ = environ_of(tmp_path)
    load_text(tmp_path, LEAST)
    (tmp_path / "home" / "models.yaml").write_text(f"{LEAST}{limits}copies: {{root: /big/copies}}\n", encoding="utf-8")
    for _ in range(2):  # read, and remembered
        found = room.of(tmp_path / "home", environ)
        assert (found.max_load_per_core, found.min_free_memory, found.min_free_disk) == (1.5, 3 << 30, 4 << 30)
        assert found.paths(tmp_path / "home") == (str(tmp_path / "home" / "logs"), "/big/copies")


def test_the_room_is_remembered_without_the_rest(tmp_path: Path) -> None:
    load_text(tmp_path, LEAST)
    script = (
        "import os, sys; from pathlib import Path; from dispatcher.config import room\n"
        "room.of(Path(sys.argv[1]), os.environ); print('dispatcher.config.loader' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "home")],
        env=environ_of(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "change",
    [{"program": "0.0.0"}, {"room": None}, {"room": {}}, {"room": {"max_load_per_core": "much"}}, {"text": ""}],
)
def test_a_remembered_room_that_does_not_fit_is_replaced(tmp_path: Path, change: dict[str, Any]) -> None:
    load_text(tmp_path, LEAST)
    good = json.loads(room_of(tmp_path).read_text("utf-8"))
    room_of(tmp_path).write_text(json.dumps({**good, **change}), encoding="utf-8")
    assert room.of(tmp_path / "home", environ_of(tmp_path)).min_free_memory == 1 << 30
    assert json.loads(room_of(tmp_path).read_text("utf-8")) == good
