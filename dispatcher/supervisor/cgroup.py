"""A control group (version 2) for one worker: whatever it forks stays inside, also with `env -i setsid` and a double
fork. Needs write access to our own group: root, or a subtree that systemd delegated. Without it there is none, and
the tree is found by other means.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def own_path(mountinfo: str, groups: str) -> str | None:
    """The folder of our own group, from /proc/self/mountinfo and /proc/self/cgroup.

    The mount may lie anywhere (in hybrid mode below the version 1 tree) and may show only a part of the hierarchy.
    """
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    if own is None or own.startswith("/.."):
        return None
    for line in mountinfo.splitlines():
        fields, _, filesystem = line.partition(" - ")
        parts = fields.split()
        if not filesystem.startswith("cgroup2 ") or len(parts) < 5:
            continue
        root = _unescape(parts[3]).rstrip("/")
        if own == root or own.startswith(root + "/"):
            return (_unescape(parts[4]).rstrip("/") + own[len(root) :]).rstrip("/")
    return None


def _unescape(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


class Group:
    def __init__(self, path: str) -> None:
        self.path = path

    def _folders(self, path: str) -> Iterator[str]:
        """The group and the groups that a worker made in it, innermost first."""
        try:
            with os.scandir(path) as entries:
                inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for folder in inner:
            yield from self._folders(folder)
        yield path

    def members(self) -> list[int]:
        pids = []
        for folder in self._folders(self.path):
            try:
                with open(folder + "/cgroup.procs", "rb") as file:
                    pids += [int(line) for line in file.read().split()]
            except OSError:
                continue
        return [pid for pid in pids if pid > 0]  # 0 stands for a process of another PID namespace

    def kill(self) -> None:
        """KILL to every member at once, forks in progress included (kernel 5.14)."""
        _write(self.path + "/cgroup.kill", b"1")

    def release(self, pid: int) -> None:
        """Move a process that may stay into the group above."""
        _write(os.path.dirname(self.path) + "/cgroup.procs", str(pid).encode())

    def remove(self) -> bool:
        for folder in self._folders(self.path):
            try:
                os.rmdir(folder)
            except OSError:
                return False
        return True


def _write(path: str, data: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(fd, data)
    except OSError:
        return
    finally:
        os.close(fd)


def create(marker: str) -> Group | None:
    """A fresh group below our own, or None where that is not possible."""
    path = _path(marker)
    if path is None:
        return None
    try:
        os.mkdir(path)
    except OSError:
        return None
    return Group(path)


def find(marker: str) -> Group | None:
    """The group that `create` made for this marker, if it is still there."""
    path = _path(marker)
    return Group(path) if path is not None and os.path.isdir(path) else None


def _path(marker: str) -> str | None:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mountinfo = file.read()
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            own = own_path(mountinfo, file.read())
    except OSError:
        return None
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in marker)
    return None if own is None else f"{own}/dispatcher-{name}"
