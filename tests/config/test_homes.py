"""Which folder is the home, what trust means, and where the logs are."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from dispatcher.config import database, find_home, homes, is_trusted, logs_dir, require_trust, state_folder, trust
from dispatcher.errors import BadInput, UntrustedHome
from tests.config.samples import environ_of


def home_in(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.yaml").write_text("", encoding="utf-8")
    return folder


def test_the_order_in_which_a_home_is_found(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    here, empty = home_in(tmp_path / "here"), tmp_path / "empty"
    empty.mkdir()
    named = {**environ, "DISPATCHER_HOME": str(tmp_path / "named")}
    assert find_home(tmp_path / "x", named, here) == tmp_path / "x"
    assert find_home("x", named, here) == here / "x"
    assert find_home(None, named, here) == tmp_path / "named"
    assert find_home(None, {**environ, "DISPATCHER_HOME": ""}, here) == here
    assert find_home(None, environ, here) == here
    assert find_home(None, environ, empty) == tmp_path / "person/.config/dispatcher"
    assert find_home(None, {**environ, "XDG_CONFIG_HOME": str(tmp_path / "c")}, empty) == tmp_path / "c/dispatcher"
    assert find_home(None, {**environ, "XDG_CONFIG_HOME": "relative"}, empty) == tmp_path / "person/.config/dispatcher"
    assert find_home("~/h", environ, empty) == tmp_path / "person/h"


def test_a_home_is_never_searched_upwards(tmp_path: Path) -> None:
    below = home_in(tmp_path / "here") / "below"
    below.mkdir()
    assert find_home(None, environ_of(tmp_path), below) == tmp_path / "person/.config/dispatcher"


def test_what_cannot_be_a_home(tmp_path: Path) -> None:
    file = home_in(tmp_path / "here") / "models.yaml"
    with pytest.raises(BadInput, match="is a file") as caught:
        find_home(file, {}, tmp_path)
    assert str(tmp_path / "here") in (caught.value.hint or "")
    with pytest.raises(BadInput, match="HOME is not set"):
        find_home(None, {}, tmp_path)
    with pytest.raises(BadInput, match="HOME is not set"):
        find_home("~/x", {}, tmp_path)
    with pytest.raises(BadInput, match="HOME is not an absolute path"):
        find_home(None, {"HOME": "there"}, tmp_path)


def test_trust_is_asked_once_and_survives_a_new_text(tmp_path: Path) -> None:
    home, environ = home_in(tmp_path / "home"), environ_of(tmp_path)
    with pytest.raises(UntrustedHome, match="can run commands") as caught:
        require_trust(home, environ)
    assert "dispatcher trust" in (caught.value.hint or "")
    trust(home, environ)
    (home / "models.yaml").write_text("rules: []\n", encoding="utf-8")
    require_trust(home, environ)
    link = tmp_path / "link"
    link.symlink_to(home)
    assert is_trusted(link, environ)
    assert not list(home.glob("*trust*"))  # nothing that would travel with the folder


def test_a_copy_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, environ = home_in(tmp_path / "home"), environ_of(tmp_path)
    trust(home, environ)
    moved = tmp_path / "moved"
    home.rename(moved)
    assert not is_trusted(moved, environ)
    moved.rename(home)
    assert is_trusted(home, environ)
    other = tmp_path / "machine-id"
    other.write_text("another machine\n", encoding="ascii")
    monkeypatch.setattr(homes, "_MACHINE_FILES", (str(other),))
    assert not is_trusted(home, environ)  # the whole disk was copied
    monkeypatch.setattr(homes, "_MACHINE_FILES", ())
    assert not is_trusted(home, environ)
    trust(home, environ)  # a system without an id: its name
    assert is_trusted(home, environ)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"home": 1}', "\x00", "[" * 100_000])
def test_a_broken_record_means_untrusted(tmp_path: Path, text: str) -> None:
    home, environ = home_in(tmp_path / "home"), environ_of(tmp_path)
    trust(home, environ)
    record = homes.record_path(home, environ, "trust")
    record.write_text(text, encoding="utf-8")
    assert not is_trusted(home, environ)


def test_a_record_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    home, environ = home_in(tmp_path / "home"), environ_of(tmp_path)
    trust(home, environ)
    record = homes.record_path(home, environ, "trust")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    record.chmod(0o666)
    assert not is_trusted(home, environ)


def test_records_of_two_homes_never_speak_for_each_other(tmp_path: Path) -> None:
    """Their names are short hashes: the content decides."""
    one, two, environ = home_in(tmp_path / "one"), home_in(tmp_path / "two"), environ_of(tmp_path)
    trust(one, environ)
    forged = homes.record_path(two, environ, "trust")
    forged.write_text(homes.record_path(one, environ, "trust").read_text("utf-8"), encoding="utf-8")
    forged.chmod(0o600)
    assert not is_trusted(two, environ)
    assert json.loads(forged.read_text("utf-8"))["home"] == str(one)


def test_a_state_folder_that_cannot_be_made(tmp_path: Path) -> None:
    home, environ = home_in(tmp_path / "home"), environ_of(tmp_path)
    (tmp_path / "person").write_text("a file where HOME should be", encoding="utf-8")
    assert not is_trusted(home, environ)
    with pytest.raises(BadInput, match="cannot remember the trust") as caught:
        trust(home, environ)
    assert "XDG_STATE_HOME" in (caught.value.hint or "")
    trust(home, {**environ, "XDG_STATE_HOME": str(tmp_path / "state")})
    assert state_folder({"XDG_STATE_HOME": str(tmp_path / "state")}) == tmp_path / "state/dispatcher"


def test_logs_are_made_for_this_user_alone(tmp_path: Path) -> None:
    home = home_in(tmp_path / "home")
    assert database(home) == home / "logs/dispatcher.db"
    assert stat.S_IMODE((home / "logs").stat().st_mode) == 0o700
    assert logs_dir(home) == home / "logs"


def test_looking_for_a_database_makes_nothing_where_there_is_no_home(tmp_path: Path) -> None:
    assert database(tmp_path / "nothing") == tmp_path / "nothing/logs/dispatcher.db"
    assert list(tmp_path.iterdir()) == []


def test_logs_in_the_way(tmp_path: Path) -> None:
    home = home_in(tmp_path / "home")
    (home / "logs").write_text("a file", encoding="utf-8")
    with pytest.raises(BadInput, match=r"cannot make .*/logs") as caught:
        logs_dir(home)
    assert "symbolic link" in (caught.value.hint or "")


def test_logs_that_are_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the system is played here."""
    home = home_in(tmp_path / "home")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(BadInput, match="logs is not writable"):
        logs_dir(home)
