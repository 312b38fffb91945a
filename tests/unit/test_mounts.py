"""Reading mount tables and the flags a remount must keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.runtimes import chroot, mounts

TABLE = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda rw
22 21 0:5 / /cache/root/sys rw,nosuid shared:7 - sysfs sysfs rw
23 22 0:6 / /cache/root/sys/fs/cgroup rw - tmpfs tmpfs rw
24 21 0:7 / /cache/root/system rw - tmpfs tmpfs rw
25 21 0:8 / /cache/root/sys/with\\040space rw - tmpfs tmpfs rw
26 21 0:9 / /cache/root/sys rw - tmpfs tmpfs rw
"""


def test_mount_points_below_are_whole_path_parts_each_once(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(TABLE)
    assert mounts.mount_points_below("/cache/root/sys", str(tmp_path / "mountinfo")) == [
        "/cache/root/sys",
        "/cache/root/sys/fs/cgroup",
        "/cache/root/sys/with space",
    ]
    assert mounts.mount_points_below("/cache/other", str(tmp_path / "mountinfo")) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"kernel/unprivileged_userns_clone": "0"}, "sudo sysctl kernel.unprivileged_userns_clone=1"),
        ({"user/max_user_namespaces": "0"}, "sudo sysctl user.max_user_namespaces=65536"),
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "1", "user/max_user_namespaces": "100"},
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"user/max_user_namespaces": "100"}, "have the administrator allow user namespaces"),
    ],
)
def test_remedy_names_the_switch_that_forbids_user_namespaces(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert chroot._userns_remedy(tmp_path).startswith(expected)
