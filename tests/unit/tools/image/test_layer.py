import os
import tarfile
from pathlib import Path

from tools.image import layer


def fill(root: Path, *, backwards: bool = False) -> None:
    names = ["a/one", "a/two", "tmp/three"]
    for name in reversed(names) if backwards else names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    (root / "a/two").chmod(0o4755)
    (root / "link").symlink_to("a/one")


def test_the_same_files_make_the_same_layer_whoever_made_them_and_when(tmp_path: Path) -> None:
    fill(tmp_path / "first")
    fill(tmp_path / "second", backwards=True)
    os.utime(tmp_path / "second/a/one", (1, 1))
    (tmp_path / "second/a/one").chmod(0o600)
    made = [layer.write(tmp_path / name, tmp_path / f"{name}.tar", name) for name in ("first", "second")]
    assert made[0].digest == made[1].digest


def test_all_is_roots_and_nothing_gives_its_user_another_ones_rights(tmp_path: Path) -> None:
    fill(tmp_path / "root")
    written = layer.write(tmp_path / "root", tmp_path / "layer.tar", "a test")
    with tarfile.open(written.path) as tar:
        entries = {entry.name: entry for entry in tar}
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(0, 0)}
    assert {name: oct(entry.mode) for name, entry in entries.items()} == {
        "a": "0o755",
        "a/one": "0o644",
        "a/two": "0o755",
        "link": "0o777",
        "tmp": "0o1777",
        "tmp/three": "0o644",
    }
    assert entries["link"].linkname == "a/one"


def test_a_file_with_two_names_is_two_files(tmp_path: Path) -> None:
    fill(tmp_path / "root")
    (tmp_path / "root/z").hardlink_to(tmp_path / "root/a/one")
    written = layer.write(tmp_path / "root", tmp_path / "layer.tar", "a test")
    with tarfile.open(written.path) as tar:
        content = tar.extractfile("z")
        assert content is not None
        assert content.read() == b"a/one"
        assert tar.getmember("z").isreg()
