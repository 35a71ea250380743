"""Where our own control group lies, from what the kernel prints in different setups."""

from __future__ import annotations

import pytest

from dispatcher.supervisor.cgroup import own_path

UNIFIED = "28 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)
PARTIAL = "28 23 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "groups", "path"),
    [
        (UNIFIED, "0::/user.slice/user-1000.slice/s.scope\n", "/sys/fs/cgroup/user.slice/user-1000.slice/s.scope"),
        (UNIFIED, "0::/\n", "/sys/fs/cgroup"),
        (HYBRID, "8:pids:/\n4:memory:/x\n0::/\n", "/sys/fs/cgroup/unified"),
        (HYBRID, "4:memory:/x\n0::/a b\n", "/sys/fs/cgroup/unified/a b"),
        (PARTIAL, "0::/user.slice/a\n", "/sys/fs/cgroup/a"),
        (PARTIAL, "0::/user.slice-two/a\n", None),
        (PARTIAL, "0::/system.slice\n", None),
        (UNIFIED, "0::/../outside\n", None),
        (UNIFIED, "4:memory:/x\n", None),
        ("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "0::/\n", None),
        ("41 31 0:38 / /mnt/with\\040space rw - cgroup2 cgroup2 rw\n", "0::/g\n", "/mnt/with space/g"),
        ("garbage\n", "garbage\n", None),
        ("", "", None),
    ],
)
def test_own_path(mountinfo: str, groups: str, path: str | None) -> None:
    assert own_path(mountinfo, groups) == path
