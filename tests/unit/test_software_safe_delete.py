"""Deletion never follows a mount or a symbolic link, and says what is mounted."""

from pathlib import Path

import pytest

from tare.software.safe_delete import MountedBelowError, mount_points, mounted_below, remove_tree

LINE = "36 35 98:0 / {point} rw,noatime shared:1 - ext4 /dev/root rw\n"


@pytest.fixture
def mountinfo(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(LINE.format(point="/"))
    return path


def test_mount_points_unescapes_octal() -> None:
    text = LINE.format(point=r"/a\040b\011c\134d") + "too short\n" + LINE.format(point="/dev")
    assert mount_points(text) == [Path("/a b\tc\\d"), Path("/dev")]


def test_real_mountinfo_has_the_root_and_proc() -> None:
    assert {Path("/"), Path("/proc")} <= {*mounted_below(Path("/"))}


@pytest.mark.parametrize("below", ["", "/dev", "/deep/er dev"])
def test_refuses_a_mount_at_or_below(tmp_path: Path, mountinfo: Path, below: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "kept").touch()
    point = f"{tree}{below}".replace(" ", r"\040")
    mountinfo.write_text(LINE.format(point="/") + LINE.format(point=point))
    with pytest.raises(MountedBelowError, match=f"{tree} is not deleted: .*umount {tree}{below}"):
        remove_tree(tree, mountinfo)
    assert (tree / "kept").exists()


def test_refuses_through_a_symbolic_link_in_the_path(tmp_path: Path, mountinfo: Path) -> None:
    (tmp_path / "real/tree").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    mountinfo.write_text(LINE.format(point=f"{tmp_path}/real/tree/dev"))
    with pytest.raises(MountedBelowError):
        remove_tree(tmp_path / "link/tree", mountinfo)
    assert (tmp_path / "real/tree").is_dir()


def test_a_neighbour_with_the_same_beginning_is_no_hindrance(tmp_path: Path, mountinfo: Path) -> None:
    (tmp_path / "tree").mkdir()
    mountinfo.write_text(LINE.format(point=f"{tmp_path}/tree-2/dev"))
    remove_tree(tmp_path / "tree", mountinfo)
    assert not (tmp_path / "tree").exists()


def test_a_link_goes_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target/file").touch()
    (tmp_path / "link").symlink_to("target")
    remove_tree(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target/file").exists()


def test_links_inside_a_tree_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside/file").exists()


def test_file_and_missing_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file")
    remove_tree(tmp_path / "file")
    assert [*tmp_path.iterdir()] == []
