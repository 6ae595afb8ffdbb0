"""Stores of segments and results: a folder and an object store keep the same promises."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from audit_pipeline.spool.targets import FolderTarget, StoreTarget, Target, open_target
from tests.support.processes.s3_server import S3Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("objects")) as running:
        yield running


@pytest.fixture(params=["folder", pytest.param("store", marks=pytest.mark.full)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """An empty target."""
    if request.param == "folder":
        return open_target(str(tmp_path / "a" / "folder"))
    server: S3Server = request.getfixturevalue("server")
    return open_target(server.uri.replace("/events?", f"/{tmp_path.name}?"))


def names(target: Target, folder: str = "") -> list[str]:
    return [stored.path for stored in target.files(folder)]


def read(target: Target, path: str) -> bytes:
    with target.file_system.open_input_stream(path) as file:
        return bytes(file.read())


def test_an_unused_target_is_empty(target: Target) -> None:
    assert names(target) == []
    target.clean(lambda _: True)
    target.delete("day/a.parquet")
    target.remove_folder("day")
    target.make()
    assert names(target) == []


def test_a_written_file_is_complete_and_is_replaced_as_a_whole(target: Target) -> None:
    target.put("day/a.parquet", b"one")
    target.put("day/a.parquet", b"another")
    assert [(stored.path, stored.size) for stored in target.files()] == [("day/a.parquet", 7)]
    assert read(target, "day/a.parquet") == b"another"
    target.delete("day/a.parquet")
    assert names(target) == []
    with pytest.raises(FileNotFoundError):
        read(target, "day/a.parquet")


def test_unfinished_files_of_other_owners_are_not_deleted(target: Target) -> None:
    for path in ("_notes.2024", "mine/_app.log.1", "_a.parquet.text"):
        target.put(path, b"")
    target.clean(lambda path: path == "a.parquet")
    assert names(target) == ["_a.parquet.text", "_notes.2024", "mine/_app.log.1"]


def test_files_are_found_by_name_in_a_folder_and_below_it(target: Target) -> None:
    for path in ("b/2", "a/2", "a/1/1", "c"):
        target.put(path, b"")
    assert names(target) == ["a/1/1", "a/2", "b/2", "c"]
    assert names(target, "a") == ["a/1/1", "a/2"]
    assert names(target, "d") == []


def test_a_file_is_placed_below_folders_that_are_not_there_yet(target: Target) -> None:
    target.put("_drafts/new/part-0", b"rows")
    target.place("_drafts/new/part-0", "table/event_date=2024-05-06/0")
    assert names(target) == ["table/event_date=2024-05-06/0"]
    target.rename("table/event_date=2024-05-06/0", "table/event_date=2024-05-06/1")
    assert read(target, "table/event_date=2024-05-06/1") == b"rows"


def test_remove_folder_deletes_all_files_of_the_folder_and_no_others(target: Target) -> None:
    for path in ("_drafts/one/0", "_drafts/two", "_drafts-of-mine", "table/0"):
        target.put(path, b"")
    target.remove_folder("_drafts")
    assert names(target) == ["_drafts-of-mine", "table/0"]
    assert names(target, "_drafts") == []


def test_upkeep_reports_whether_it_is_the_only_one_if_the_store_can_detect_others(target: Target) -> None:
    target.make()
    with target.upkeep() as first, target.upkeep() as second:
        assert (first, second) == (True, not target.sees_others)
    with target.upkeep() as third:
        assert third


def test_local_path_is_set_where_spark_can_use_the_path(target: Target) -> None:
    target.put("day/a.parquet", b"one")
    path = target.local_path("day/a.parquet")
    assert (path is None) == isinstance(target, StoreTarget)
    assert (path is not None) == isinstance(target, FolderTarget)
    if path is not None:
        assert path.is_absolute()
        assert path.read_bytes() == b"one"
