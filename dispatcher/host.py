"""What the machine can bear, read from the kernel each time it is asked: load, memory, disk. Standard library only.

A worker is a language runtime of 200 to 900 MB, so the next one is not started on a host that is short of anything.
What cannot be read is no obstacle: it counts as plenty.
"""

from __future__ import annotations

import os

from dispatcher.errors import Refused
from dispatcher.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    class Room(Protocol):
        """What must be left: the limits of the configuration that concern the host."""

        @property
        def max_load_per_core(self) -> float: ...
        @property
        def min_free_memory(self) -> int: ...
        @property
        def min_free_disk(self) -> int: ...


PLENTY = 1 << 62
UNLIMITED = 1 << 60  # version 1 control groups write a number near 2**63 for "no limit"
GIB = 1024**3
WORKER_MEMORY = 700 * 1024**2  # opencode 1.18 takes 530-870 MB, and reaches that seconds after its start
FEWEST_FILES = 64
PATIENCE = 15 * 60.0  # seconds that a person's run waits for a busy host; cron's next run comes by itself


class Load:
    """How busy the host is. Bytes; `disk` is the smallest free space among the paths asked about, with its path.

    No dataclass: `status` looks at the host too, and their library alone costs a third of it.
    """

    __slots__ = ("disk", "disk_path", "memory", "per_core")

    def __init__(self, per_core: float, memory: int, disk: int, disk_path: str) -> None:
        self.per_core = per_core
        self.memory = memory
        self.disk = disk
        self.disk_path = disk_path


def refuse_few_files() -> None:
    """A run opens files for each of its workers; where it may not, it would break in the middle of something."""
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= allowed < FEWEST_FILES:
        raise Refused(f"a run may open only {plural(allowed, 'file')} here", hint="raise the limit: ulimit -n 1024")


def name() -> str:
    return os.uname().nodename


def boot_id() -> str:
    """Differs after every start of the machine; empty where the kernel does not tell."""
    return _text("/proc/sys/kernel/random/boot_id").strip()


def zone(environ: Mapping[str, str]) -> str:
    """The time zone of this machine: old versions of the CLIs name clock times without one."""
    name = environ.get("TZ", "").removeprefix(":")
    if name:
        return name
    try:
        return os.path.realpath("/etc/localtime").partition("zoneinfo/")[2] or "UTC"
    except OSError:
        return "UTC"


def load_per_core() -> float:
    """The load average of the last minute per core that we may use."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    try:
        return os.getloadavg()[0] / max(1, cores)
    except OSError:
        return 0.0


def available_memory() -> int:
    """Bytes that new processes can get: what the kernel calls available, or less inside a limited control group."""
    return min(
        parse_meminfo(_text("/proc/meminfo")), _group_memory(_text("/proc/self/cgroup"), _text("/proc/self/mountinfo"))
    )


def parse_meminfo(text: str) -> int:
    """`MemAvailable` in bytes (Linux 3.14)."""
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return PLENTY


def _group_memory(groups: str, mountinfo: str) -> int:
    """The smallest room below the limits of our own control group and all above it."""
    room = PLENTY
    for mount, root, is_v2 in memory_mounts(mountinfo):
        path = own_group(groups, is_v2)
        if path is None or not (path + "/").startswith(root.rstrip("/") + "/"):
            continue
        relative = path[len(root.rstrip("/")) :]
        while True:
            room = min(room, _room(mount + relative, is_v2))
            if not relative.strip("/"):
                break
            relative = relative.rpartition("/")[0]
    return room


def memory_mounts(mountinfo: str) -> list[tuple[str, str, bool]]:
    """(mount point, root of the mount, is version 2) of each hierarchy that may limit memory."""
    mounts = []
    for line in mountinfo.splitlines():
        fields, _, tail = line.partition(" - ")
        parts, filesystem = fields.split(), tail.split()
        if len(parts) < 5 or len(filesystem) < 3:
            continue
        if filesystem[0] == "cgroup2":
            mounts.append((parts[4], parts[3], True))
        elif filesystem[0] == "cgroup" and "memory" in filesystem[2].split(","):
            mounts.append((parts[4], parts[3], False))
    return mounts


def own_group(groups: str, is_v2: bool) -> str | None:
    """Our group's path in /proc/self/cgroup: `0::PATH` (version 2) or `N:...,memory,...:PATH`."""
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0" and not controllers) if is_v2 else "memory" in controllers.split(","):
            return path
    return None


def _room(folder: str, is_v2: bool) -> int:
    """Limit minus use; page cache that can be dropped is not in use."""
    limit = _text(f"{folder}/memory.max" if is_v2 else f"{folder}/memory.limit_in_bytes").strip()
    used = _text(f"{folder}/memory.current" if is_v2 else f"{folder}/memory.usage_in_bytes").strip()
    if not limit.isdigit() or not used.isdigit() or int(limit) >= UNLIMITED:
        return PLENTY
    key = "inactive_file " if is_v2 else "total_inactive_file "
    lines = _text(f"{folder}/memory.stat").splitlines()
    cache = next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)
    return max(0, int(limit) - max(0, int(used) - cache))


def free_disk(path: str) -> int:
    """Bytes that we may still write where `path` lies, or where it would be made."""
    while True:
        try:
            status = os.statvfs(path)
        except FileNotFoundError:
            parent = os.path.dirname(path.rstrip("/")) or "/"
            if parent == path:
                return PLENTY
            path = parent
        except OSError:
            return PLENTY
        else:
            return status.f_bavail * status.f_frsize


def measure(paths: Iterable[str]) -> Load:
    disks = [(free_disk(path), path) for path in paths]
    disk, path = min(disks, default=(PLENTY, ""))
    return Load(load_per_core(), available_memory(), disk, path)


def refusal(load: Load, limits: Room, starting: int = 0) -> str | None:
    """Why no worker may start at this load, in words; None when one may. 0 switches a limit off.

    `starting` workers were started just now: what they will take is not in use yet.
    """
    if 0 < limits.max_load_per_core < load.per_core:
        return f"load {load.per_core:.1f} per core is above max_load_per_core {limits.max_load_per_core:g}"
    memory = load.memory - starting * WORKER_MEMORY
    if memory < limits.min_free_memory:
        expected = f", with {plural(starting, 'worker')} just started," if starting else ""
        return (
            f"{_bytes(max(0, memory))} of memory available{expected} is below "
            f"min_free_memory {_bytes(limits.min_free_memory)}"
        )
    if load.disk < limits.min_free_disk:
        return f"{_bytes(load.disk)} free at {load.disk_path} is below min_free_disk {_bytes(limits.min_free_disk)}"
    return None


def admission(limits: Room, paths: Iterable[str], starting: int = 0) -> str | None:
    """Why no worker may start now; None when one may. `paths`: where workers write (copies, logs, tmp)."""
    return refusal(measure(paths), limits, starting)


def _bytes(number: int) -> str:
    """In the unit that leaves something to see."""
    for unit, size in (("GiB", GIB), ("MiB", 1024**2), ("KiB", 1024)):
        if number >= size:
            return f"{number / size:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{number} B"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
