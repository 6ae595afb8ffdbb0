"""The page as a file: whole, of a size, and safe."""

import base64
import hashlib
import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.report.writing import put_report, rendered, write_report
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_results import HOSTILE, LONG, minutes_of_a_demo, publish_rows, story
from tests.unit.audit_pipeline.report.test_markup import Read

SECTIONS = [
    "usage",
    "failures",
    "traffic",
    "latency",
    "top",
    "changes",
    "storms",
    "recommended",
    "tried",
    "objectives",
    "cost",
    "idle",
    "mirrors",
    "completeness",
    "quarantine",
]


@pytest.fixture(scope="module")
def page(told: Path) -> str:
    return rendered(FolderTarget(told)).page


def test_names_never_become_elements(page: str) -> None:
    read = Read(page)
    kinds = {name for name, _ in read.tags}
    assert not kinds & {"img", "iframe", "object", "embed", "base", "a href"}
    assert [found.get("type") for name, found in read.tags if name == "script"] == ["application/json", None]
    attributes = {name for _, found in read.tags for name in found}
    assert not {name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc")}
    assert {found["href"] for name, found in read.tags if name in ("a", "link")} == {
        "data:,",
        *(f"#{section}" for section in SECTIONS),
    }
    for name in HOSTILE:
        assert name.encode("unicode_escape").decode() in read.text or name in read.text
    assert "\u202e" not in page


def test_only_its_own_script_and_style_may_run(page: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    for name in ("style", "script"):
        (text,) = re.findall(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src &#x27;sha256-{digest}&#x27;" in policy
    assert policy.startswith("default-src &#x27;none&#x27;")


def test_it_names_no_host_and_is_not_large(page: str) -> None:
    assert not re.findall(r"https?://|//[a-z]", page)
    assert len(page.encode()) < 445_000


@pytest.mark.full
def test_the_page_stays_small_with_very_many_rows(tmp_path: Path) -> None:
    rows = story([f"{number:03}{LONG[3:]}" for number in range(260)])
    rows["storms"] = [
        {**storm, "started": storm["started"] + timedelta(hours=number), "source_client_id": LONG}
        for number in range(100)
        for storm in rows["storms"]
    ]
    rows["completeness"] = [
        {**row, "broker_id": broker_id, "is_complete": False} for row in rows["completeness"] for broker_id in range(50)
    ]
    rows["quarantine"] = [{"path": f"{number}{LONG}", "reason": "corrupt", "detail": LONG} for number in range(1000)]
    publish_rows(tmp_path, rows)
    made = rendered(FolderTarget(tmp_path))
    assert len(made.page.encode()) < 1_020_000
    assert len(made.numbers.encode()) < 600_000


def test_a_section_without_data_says_so(tmp_path: Path) -> None:
    publish_rows(tmp_path, minutes_of_a_demo())
    page = rendered(FolderTarget(tmp_path)).page
    quiet = re.findall(r'<section id="(\w+)"[^>]*><h2[^>]*>[^<]*</h2><p class="nothing">', page)
    assert quiet == ["changes", "recommended", "tried", "objectives", "cost", "idle", "mirrors", "quarantine"]
    assert re.findall(r'<section id="(\w+)" aria', page) == SECTIONS


@pytest.mark.parametrize(
    ("spent", "names", "says"),
    [
        ([0.5], ["a", "b"], "All 1 kept"),
        ([0.5, 2.0], ["a", "b", "c"], "1 of 2 broken"),
        ([], ["a"], None),
    ],
)
def test_objectives_that_no_request_counted_for_are_neither_kept_nor_broken(
    spent: list[float], names: list[str], says: str | None, tmp_path: Path
) -> None:
    days = {"from_date": date(2026, 11, 20), "to_date": date(2026, 11, 22)}
    rows = minutes_of_a_demo()
    rows["error_budget"] = [
        {"objective": name, **days, "requests": 100, "bad": 1, "target": 0.9, "spent": share}
        for name, share in zip(names, spent, strict=False)
    ]
    publish_rows(tmp_path, rows, summary={"objectives": names})
    (section,) = re.findall('<section id="objectives".*?</section>', rendered(FolderTarget(tmp_path)).page, re.DOTALL)
    assert f'1 had no requests; check that the names in them exist: <bdi class="name">{names[-1]}</bdi>.' in section
    assert says is None or says in section
    assert ("All" in section) is (says == "All 1 kept")


def test_the_page_and_its_numbers_are_beside_each_other(tmp_path: Path) -> None:
    publish_rows(tmp_path / "results", {})
    write_report(FolderTarget(tmp_path / "results"), tmp_path / "week.html")
    assert sorted(path.name for path in tmp_path.glob("week*")) == ["week.html", "week.json"]
    put_report(FolderTarget(tmp_path / "results"))
    assert (tmp_path / "results" / "report.html").read_text() == (tmp_path / "week.html").read_text()
    with pytest.raises(BadUseError, match="give a name such as"):
        write_report(FolderTarget(tmp_path / "results"), tmp_path / "week.json")
