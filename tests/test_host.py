"""The host guard: what the kernel's files say, and the words of a refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dispatcher import host
from dispatcher.host import GIB, PLENTY, Load
from dispatcher.task import Limits

HYBRID = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "35 31 0:32 / {root}/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / {root}/unified rw - cgroup2 cgroup2 rw\n"
)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(0.5, 8 * GIB, 9 * GIB, "/x"), None),
        (Load(4.0, GIB, 2 * GIB, "/x"), None),
        (Load(4.2, 8 * GIB, 9 * GIB, "/x"), "load 4.2 per core is above max_load_per_core 4"),
        (Load(0.5, GIB // 2, 9 * GIB, "/x"), "512 MiB of memory available is below min_free_memory 1 GiB"),
        (Load(0.5, 8 * GIB, GIB, "/x"), "1 GiB free at /x is below min_free_disk 2 GiB"),
        (Load(0.5, 8 * GIB, 5 << 20, "/x"), "5 MiB free at /x is below min_free_disk 2 GiB"),
    ],
)
def test_refusals(load: Load, words: str | None) -> None:
    assert host.refusal(load, Limits()) == words


def test_zero_switches_a_limit_off() -> None:
    limits = Limits(max_load_per_core=0, min_free_memory=0, min_free_disk=0)
    assert host.refusal(Load(99, 0, 0, "/"), limits) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MemTotal: 100 kB\nMemAvailable:   2048 kB\n", 2048 * 1024),
        ("MemTotal: 100 kB\n", PLENTY),
        ("", PLENTY),
    ],
)
def test_meminfo(text: str, found: int) -> None:
    assert host.parse_meminfo(text) == found


def _group(path: Path, **files: str) -> None:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)


def test_the_tightest_group_above_us_counts(tmp_path: Path) -> None:
    root = str(tmp_path)
    _group(tmp_path / "unified/a/b", memory__max="max\n", memory__current="100\n")
    _group(tmp_path / "memory/a", memory__limit_in_bytes=f"{2 * GIB}\n", memory__usage_in_bytes=f"{GIB}\n")
    _group(
        tmp_path / "memory/a/b",
        memory__limit_in_bytes="9223372036854771712\n",
        memory__usage_in_bytes="5\n",
    )
    (tmp_path / "memory/a/memory.stat").write_text(f"total_inactive_file {GIB // 4}\nx 1\n")
    groups = "4:memory:/a/b\n0::/a/b\n"
    assert host._group_memory(groups, HYBRID.format(root=root)) == GIB + GIB // 4
    (tmp_path / "unified/a/memory.max").write_text("1000\n")
    (tmp_path / "unified/a/memory.current").write_text("1900\n")
    (tmp_path / "unified/a/memory.stat").write_text("inactive_file 950\n")
    assert host._group_memory(groups, HYBRID.format(root=root)) == 50


@pytest.mark.parametrize("groups", ["", "4:memory:/elsewhere\n0::/elsewhere\n", "nonsense"])
def test_no_readable_group_is_no_obstacle(groups: str, tmp_path: Path) -> None:
    assert host._group_memory(groups, HYBRID.format(root=str(tmp_path))) == PLENTY


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert host.free_disk(str(tmp_path / "a" / "b")) == pytest.approx(host.free_disk(str(tmp_path)), rel=0.1)
    assert host.free_disk("/") > 0


def test_this_machine() -> None:
    load = host.measure([os.getcwd(), "/"])
    assert load.per_core >= 0
    assert 0 < load.memory <= PLENTY
    assert load.disk == min(load.disk, PLENTY)
    assert load.disk_path in (os.getcwd(), "/")
    assert host.name() == os.uname().nodename
    assert host.boot_id() == host.boot_id()
    assert host.admission(Limits(min_free_memory=PLENTY), ["/"]) is not None
    assert host.admission(Limits(max_load_per_core=0, min_free_memory=0, min_free_disk=0), ["/"]) is None


def test_the_zone_of_this_machine() -> None:
    assert host.zone({"TZ": "Europe/Zurich"}) == "Europe/Zurich"
    assert host.zone({"TZ": ":Asia/Tokyo"}) == "Asia/Tokyo"
    assert host.zone({})
