"""Which processes are ours, against a process table that is written by hand."""

from __future__ import annotations

import os

import pytest

from dispatcher.supervisor import processes
from dispatcher.supervisor.processes import Process
from dispatcher.supervisor.tree import Tree

ME = os.getpid()
BORN = 1000
ROWS = [
    # pid, parent, start, name
    (1, 0, 1, "init"),
    (50, 1, 900, "dispatcher"),
    (ME, 50, BORN, "supervisor"),
    (60, ME, 1002, "node"),
    (61, 60, 1003, "bash"),
    (62, 1, 1005, "marked"),
    (63, 62, 1006, "child of marked"),
    (64, 1, BORN, "marked, of the same moment"),
    (65, 1, 999, "marked, older"),
    (66, 65, 1007, "young child of an older one"),
    (67, 1, 1008, "stranger"),
    (68, ME, 1009, "orphan"),
    (69, 60, 1010, "zombie"),
    (70, 61, 1011, "gradle"),
    (71, 70, 1012, "gradle's worker"),
]
MARKED = {62, 64, 65, 50}


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {pid: Process(pid, parent, start, 0, name, name != "zombie") for pid, parent, start, name in ROWS}
    monkeypatch.setattr(processes, "table", lambda: rows)
    monkeypatch.setattr(processes, "has_marker", lambda pid, marker: pid in MARKED)
    monkeypatch.setattr(processes, "program", lambda pid: "")


def found(tree: Tree) -> set[int]:
    return {process.pid for process in tree.find()}


def test_the_supervisor_finds_children_orphans_and_the_marked() -> None:
    assert found(Tree("m", parent=ME, born=BORN)) == {60, 61, 62, 63, 68, 70, 71}


def test_without_a_supervisor_the_marker_and_the_known_remain() -> None:
    assert found(Tree("m", parent=None, born=BORN, leader=(60, 1002))) == {60, 61, 62, 63, 70, 71}


def test_a_known_pid_with_another_start_is_a_stranger() -> None:
    assert found(Tree("m", parent=None, born=BORN, leader=(67, 1001))) == {62, 63}


def test_what_was_found_once_is_remembered_when_it_has_left() -> None:
    tree = Tree("m", parent=ME, born=BORN)
    tree.find()
    tree.parent = None
    assert 68 in found(tree)


def test_a_named_daemon_stays_with_what_it_started() -> None:
    tree = Tree("m", parent=ME, born=BORN, keep=("gradle", "node"), leader=(60, 1002))
    assert found(tree) == {60, 61, 62, 63, 68}  # the worker itself may not stay, whatever it is called
    assert tree.kept == {(70, 1011): "gradle", (71, 1012): "gradle's worker"}
