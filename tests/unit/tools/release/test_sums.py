import hashlib
from pathlib import Path

from tools.release.packed import tar_gz
from tools.release.sums import first_difference, write_sums


def folder(place: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    write_sums(place)
    return place


def test_the_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    made = folder(tmp_path / "dist", {"b": b"2", "a": b"1"})
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in (("a", b"1"), ("b", b"2"))]
    assert (made / "SHA256SUMS").read_text() == "".join(lines)


def test_equal_folders_have_no_difference(tmp_path: Path) -> None:
    files = {"a": b"1" * 3_000_000, "b": b""}
    assert first_difference(folder(tmp_path / "x", files), folder(tmp_path / "y", files)) is None


def test_a_difference_names_the_file_and_the_first_byte(tmp_path: Path) -> None:
    content = b"1" * 3_000_000
    one = folder(tmp_path / "x", {"a": content, "b": b"same"})
    other = folder(tmp_path / "y", {"a": content[:2_000_001] + b"2" + content[2_000_002:], "b": b"same"})
    assert (first_difference(one, other) or "").startswith("a differs from byte 2000001 on: b'1111")


def test_a_longer_file_differs_where_the_shorter_ends(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "x", {"a": b"123"}), folder(tmp_path / "y", {"a": b"12"})
    assert (first_difference(one, other) or "").startswith("a differs from byte 2 on")


def test_a_file_that_one_folder_lacks_is_named(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "x", {"a": b"1"}), folder(tmp_path / "y", {"a": b"1", "b": b"2"})
    assert first_difference(one, other) == f"b is only in {other}"


def test_an_archive_depends_on_names_contents_and_the_given_time_only() -> None:
    files = {"x/b": b"2", "x/a": b"1"}
    assert tar_gz(files, 1_790_000_000) == tar_gz(dict(files), 1_790_000_000)
    assert tar_gz(files, 1_790_000_000) != tar_gz(files, 1_790_000_001)
