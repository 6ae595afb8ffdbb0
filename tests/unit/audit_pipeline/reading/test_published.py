"""Files of results that stay while another build may be running."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import fs

from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.published import (
    GRACE_S,
    MANIFEST,
    NOTE_PREFIX,
    Manifest,
    publish,
    read_manifest,
    remove_unpublished,
    require_files,
    successor,
)
from audit_pipeline.spool.targets import FolderTarget, StoreTarget

HOUR_US = 3_600_000_000
BEGAN_US = int(datetime(2024, 5, 8, tzinfo=UTC).timestamp()) * 1_000_000
KILLED = "20240508T000000-0badcafe"
LEFT = (
    f"usage/event_date=2024-05-06/{KILLED}-00000.parquet",
    f"_state/{KILLED}.state",
    f"{NOTE_PREFIX}{KILLED}-usage.json",
)
NAMED = "usage/event_date=2024-05-06/20240506T120000-600dcafe-00000.parquet"
OTHERS = "report.html"
SEGMENT = "usage/arrival_date=2024-05-06/arrival_hour=05/c-1-b-00000001.parquet"


@pytest.mark.parametrize(("hours", "stays"), [(23, True), (25, False)])
def test_what_a_killed_build_has_put_into_a_store_stays_for_a_day(tmp_path: Path, hours: int, stays: bool) -> None:
    target = StoreTarget(fs.LocalFileSystem(), str(tmp_path))
    for path in (*LEFT, NAMED, OTHERS):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        target.put(path, b"{}")
    manifest = Manifest("20240506T120000-600dcafe", 0, {"usage": {"2024-05-06": (NAMED,)}})
    remove_unpublished(target, manifest, BEGAN_US + hours * HOUR_US)
    found = {each.path for each in target.files()}
    assert found == {NAMED, OTHERS, *(LEFT if stays else ())}


def test_files_that_no_build_has_written_are_never_removed(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    others = {
        SEGMENT,
        "_state/notes.json",
        "traffic/mine.parquet",
        f"traffic/copied/{KILLED}-00000.parquet",
        "_drafts/mine/notes.txt",
        f"{NOTE_PREFIX}by-me.txt",
        "_notes.2024",
        "mine/_app.log.1",
        "_libfoo.so.1",
        "mine/__manifest.json.7",
    }
    unfinished = {
        "__manifest.json.7",
        "_report.html.7",
        f"_state/_{KILLED}.state.7",
        f"_drafts/{KILLED}-usage/of_day=2024-05-06/part-0",
    }
    for path in (*others, *LEFT, *unfinished):
        target.put(path, b"{}")
    remove_unpublished(target, None, BEGAN_US)
    assert {each.path for each in target.files()} == others


def test_a_published_manifest_reads_back(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    assert read_manifest(target) is None
    manifest = Manifest(
        "20240506T120000-600dcafe",
        BEGAN_US,
        {"usage": {"2024-05-06": (NAMED,)}},
        days={"2024-05-06": {"late": 3}},
        pending=("2024-05-07",),
        superseded={"usage/old.parquet": BEGAN_US},
        summary={"events": 5},
    )
    publish(target, manifest)
    assert read_manifest(target) == manifest
    target.put(MANIFEST, b'{"format": 2}')
    with pytest.raises(BadUseError, match="format 2, but this version reads format 5: give another folder"):
        read_manifest(target)


@pytest.mark.parametrize("torn", [b"", b'{"format": 3, "fil', b"[]", b'{"format": 5}', b"\xff\xfe{"])
def test_a_manifest_that_is_damaged_is_not_taken_for_none(tmp_path: Path, torn: bytes) -> None:
    target = FolderTarget(tmp_path)
    target.put(MANIFEST, torn)
    with pytest.raises(BadUseError, match=r"_manifest.json of the results is damaged \(.* give `build` another"):
        read_manifest(target)


def test_missing_files_of_the_manifest_are_reported_with_instructions(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    whole = "storms/20240506T120000-600dcafe-00000.parquet"
    manifest = Manifest("20240506T120000-600dcafe", 0, {"usage": {"2024-05-06": (NAMED,)}, "storms": {"": (whole,)}})
    target.put(NAMED, b"rows")
    with pytest.raises(BadUseError, match=rf"missing or empty \(1\), such as {whole}: run `build` again"):
        require_files(target, manifest, ["usage", "storms"])
    require_files(target, manifest, ["usage"])
    target.put(NAMED, b"")
    with pytest.raises(
        BadUseError, match=rf"missing or empty \(2\), such as {NAMED}: .* give `build` another --results"
    ):
        require_files(target, manifest, ["usage", "storms"])


def test_unreferenced_files_stay_for_current_readers_and_are_then_deleted(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    paths = [f"usage/event_date=2024-05-06/20240506T12000{number}-600dcafe-00000.parquet" for number in range(3)]
    first, second, third = paths

    def after(former: Manifest | None, path: str, seconds: int) -> Manifest:
        built_us = BEGAN_US + seconds * 1_000_000
        remove_unpublished(target, former, built_us)
        target.put(path, b"{}")
        return successor(former, Manifest(path[27:51], built_us, {"usage": {"2024-05-06": (path,)}}))

    two = after(after(None, first, 0), second, 10)
    assert two.superseded == {first: BEGAN_US + 10_000_000}
    three = after(two, third, 10 + GRACE_S)
    assert set(three.superseded) == {first, second}
    four = after(three, third, 11 + GRACE_S)
    assert set(four.superseded) == {second}
    remove_unpublished(target, four, BEGAN_US)
    assert {each.path for each in target.files()} == {second, third}


def test_files_of_the_manifest_are_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = []
    of = Manifest.of

    def counting(manifest: Manifest, table: str) -> list[str]:
        gathered.append(table)
        return of(manifest, table)

    monkeypatch.setattr(Manifest, "of", counting)
    days = {f"2024-05-{day:02}": (f"usage/event_date=2024-05-{day:02}/one.parquet",) for day in range(1, 31)}
    former = Manifest("1", 0, {"usage": days})
    assert len(successor(former, Manifest("2", 0, {"usage": {}})).superseded) == 30
    assert len(gathered) == 2
