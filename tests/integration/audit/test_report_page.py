"""The report in a browser: on phone and desktop, light and dark, read, sorted and filtered as by a user."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.report.writing import write_report
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_results import SCRIPT, minutes_of_a_demo, publish_rows, story
from tests.support.obtain.chromium import Browser, BrowserPage, running_chromium

pytestmark = pytest.mark.full

WIDTHS, SCHEMES = (390, 1280), ("light", "dark")
BETWEEN = (360, 600, 1000, 1920)

CONTRASTS = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const ratio = (colour, element) => {
    const [a, b] = [luminance(rgba(colour)), luminance(behind(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const faults = [];
  let seen = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest('script, style')) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const found = ratio(element.closest('svg') ? style.fill : style.color, element);
    seen += 1;
    if (found < (isLarge ? 3 : 4.5)) faults.push([texts.currentNode.data, found]);
  }
  for (const drawn of document.querySelectorAll('.line, .fill')) {
    const style = getComputedStyle(drawn);
    const found = ratio(drawn.classList.contains('line') ? style.stroke : style.fill, drawn);
    if (found < 3) faults.push([drawn.getAttribute('class'), found]);
  }
  return {seen, faults};
})()"""

LABELS = """(() => {
  const faults = [];
  let seen = 0;
  for (const figure of document.querySelectorAll('figure')) {
    const plot = figure.querySelector('.plot');
    const field = plot.querySelector('.field > svg').getBoundingClientRect();
    const whole = figure.getBoundingClientRect();
    const labels = [...plot.querySelectorAll('text')].filter(text => text.checkVisibility());
    const places = labels.map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [name, place] of places) {
      seen += 1;
      const isBeside = place.right <= field.left + 1 || place.top >= field.bottom - 1;
      if (!isBeside) faults.push(`${name} is in the plot`);
      if (place.left < whole.left - 1 || place.right > whole.right + 1) faults.push(`${name} is cut off`);
    }
    places.forEach(([name, a], number) => places.slice(number + 1).forEach(([other, b]) => {
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
        faults.push(`${name} is on ${other}`);
      }
    }));
  }
  return {seen, faults};
})()"""

TOO_WIDE = """(() => {
  // A phone makes the window as wide as what is in it.
  const root = document.documentElement;
  const parts = [...document.querySelectorAll('.scroll:not(.low, .wide), section, article, figure')];
  const wide = parts.filter(each => each.scrollWidth > each.clientWidth + 1);
  return [root.scrollWidth, wide.map(each => each.textContent.slice(0, 60))];
})()"""

SHOWN = """(() => {
  const values = document.querySelector('#traffic .values');
  return !!values?.checkVisibility() && values.textContent;
})()"""

ROWS = """[...document.querySelector('#traffic table.numbers').tBodies[0].rows]
  .map(row => [...row.cells].map(cell => cell.textContent))"""

TOPICS = """[...document.querySelectorAll('#idle-list tbody tr')].filter(row => !row.hidden)
  .map(row => [row.cells[0].textContent, +row.cells[2].dataset.value, +row.cells[3].dataset.value])"""


def sorted_by(number: int) -> str:
    return f"document.querySelector('#idle-list th:nth-child({number})').ariaSort"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages story.html, demo.html and empty.html."""
    root = tmp_path_factory.mktemp("report")
    for name, rows in (("story", story()), ("demo", minutes_of_a_demo()), ("empty", {})):
        publish_rows(root / name, rows)
        write_report(FolderTarget(root / name), root / f"{name}.html")
    return root


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with running_chromium(folder / "profile") as running:
        yield running


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["story", "demo", "empty"])
def test_a_page_can_be_read(browser: Browser, folder: Path, name: str, width: int, scheme: str) -> None:
    page = BrowserPage(browser, folder / f"{name}.html", width, scheme)
    (folder / f"{name}-{width}-{scheme}.png").write_bytes(page.picture())
    assert page.faults() == []
    assert page.ask("document.title").startswith("Audit report")
    assert page.ask(TOO_WIDE) == [width, []]
    contrasts, labels = page.ask(CONTRASTS), page.ask(LABELS)
    assert contrasts["faults"] == []
    assert labels["faults"] == []
    if name == "story":
        assert contrasts["seen"] > 1000
        assert labels["seen"] > 60


@pytest.mark.parametrize("width", BETWEEN)
def test_widths_between_have_room_for_everything(browser: Browser, folder: Path, width: int) -> None:
    page = BrowserPage(browser, folder / "story.html", width, "light")
    assert page.ask(TOO_WIDE) == [width, []]
    assert page.ask(LABELS)["faults"] == []


def test_the_looks_find_what_is_wrong(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "story.html", 390, "light")
    page.ask("document.querySelector('h1').style.color = '#999'")
    page.ask("document.querySelector('.verdict').style.color = '#999'")
    page.ask("document.querySelector('.field > text').setAttribute('x', '20%')")
    page.ask("document.querySelector('.axis text').setAttribute('x', '300')")
    page.ask("document.querySelector('footer').style.width = '500px'")
    assert [found[0] for found in page.ask(CONTRASTS)["faults"]] == ["Audit report", "No"]
    assert len(page.ask(LABELS)["faults"]) >= 2
    assert page.ask(TOO_WIDE)[0] > 390
    page.ask("setTimeout(() => { console.error('no'); fetch('http://127.0.0.1:9/'); nothing(); })")
    assert len(page.faults()) >= 3


def test_names_are_text(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, "light")
    assert page.ask("document.querySelectorAll('script:not([type])').length") == 1
    assert page.ask("document.querySelectorAll('img').length") == 0
    assert SCRIPT in page.ask("document.body.innerText")


@pytest.mark.parametrize("width", WIDTHS)
def test_idle_topics_are_sorted_with_mouse_and_keys(browser: Browser, folder: Path, width: int) -> None:
    page = BrowserPage(browser, folder / "story.html", width, "light")

    def column(number: int) -> list[Any]:
        return [row[number] for row in page.ask(TOPICS)]

    assert page.ask(sorted_by(2)) == "descending"
    before = column(0)
    page.click("#idle-list th:nth-child(3) button")
    assert (page.ask(sorted_by(3)), page.ask(sorted_by(2))) == ("descending", None)
    assert column(1) == sorted(column(1), reverse=True)
    page.press("Enter")
    assert page.ask(sorted_by(3)) == "ascending"
    assert column(1) == sorted(column(1))
    page.press("Tab")
    page.press(" ")
    assert (page.ask(sorted_by(4)), page.ask(sorted_by(3))) == ("descending", None)
    assert column(2) == sorted(column(2), reverse=True)
    page.click("#idle-list th:nth-child(1) button")
    assert page.ask(sorted_by(1)) == "ascending"
    assert sorted(column(0)) == sorted(before)
    assert column(0)[-1] == max(before)
    assert page.faults() == []


def test_idle_topics_are_filtered_by_name_and_kind(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, "dark")
    count = "document.querySelector('#idle output').textContent"
    everything = len(page.ask(TOPICS))
    page.click("#idle input[type=search]")
    page.type("ORDERS")
    named = [row[0] for row in page.ask(TOPICS)]
    assert {"orders", "orders-dlq"} < set(named)
    assert all("orders" in name for name in named)
    assert page.ask(count) == f"{len(named)} of {everything}"
    page.press("Tab")
    page.press(" ")
    assert {row[0] for row in page.ask(TOPICS)} == set(named) - {"orders-dlq"}
    page.click("#idle input[type=search]")
    page.type("-nothing-has-this")
    assert page.ask(count) == f"0 of {everything}"
    page.press("Enter")
    assert page.faults() == []


@pytest.mark.parametrize(("share", "row"), [(0.3, "left"), (0.9, "right")])
def test_a_plot_shows_the_values_at_the_pointer(browser: Browser, folder: Path, share: float, row: str) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, "light")
    assert page.ask(SHOWN) is False
    page.point("#traffic .field", share)
    values = page.ask(SHOWN)
    at, *numbers = values.split("\n")
    assert at.startswith("from (UTC): 2026-11-")
    assert [each.partition(":")[0] for each in numbers] == ["In", "Out"]
    rows = page.ask(ROWS)
    assert [at.partition(": ")[2], *(each.partition(": ")[2] for each in numbers)] in rows
    beside = page.ask("document.querySelector('#traffic .values').style.left !== 'auto'")
    assert beside is (row == "left")
    page.point("h1", 0.5)
    assert page.ask(SHOWN) is False
    assert page.faults() == []


HEAT = """[...document.querySelectorAll('#usage-heat tbody tr')].map(row => row.cells[0].textContent)"""
LISTED = """[...document.querySelectorAll('#usage-list tbody tr')].map(row => row.querySelector('bdi').textContent)"""
LEGEND = (
    """[...document.querySelectorAll('#usage-stack .legend li span:first-of-type')].map(each => each.textContent)"""
)
TOLD = "document.querySelector('#filter output').textContent"
WHOLE = """[...document.querySelectorAll('main > .unfiltered')].map(each => each.textContent)"""
SEEN = """[...document.querySelectorAll('#%s tbody tr')].filter(row => row.checkVisibility())
  .map(row => row.dataset.client)"""


def test_nothing_is_filtered_at_first_and_without_javascript_there_is_no_filter(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, "light")
    assert page.ask(TOLD) == "Nothing is filtered."
    assert page.ask("location.hash") == ""
    assert '<form id="filter" aria-label="Filter of the page" hidden data-whole=' in (folder / "story.html").read_text()


def test_tables_heat_map_and_charts_follow_a_filter_by_client(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, "light")
    before = page.ask(HEAT), page.ask(LISTED), page.ask(LEGEND)
    assert {"checkout-7", "web-edge"} <= set(before[0])
    page.click("#filter [name=client]")
    page.type("checkout-7")
    page.press("Enter")
    assert page.ask(TOLD).startswith("Filtered by client checkout-7. 1 pair of client and topic.")
    assert (page.ask(HEAT), page.ask(LISTED), page.ask(LEGEND)) == (["checkout-7"], ["checkout-7"], ["checkout-7"])
    assert set(page.ask(SEEN % "failure-list")) == {"checkout-7"}
    assert page.ask("document.querySelector('#idle .unfiltered').textContent") == "Not filtered by client."
    assert page.ask("document.querySelector('#failures .unfiltered')") is None
    assert page.ask("location.hash") == "#client=checkout-7"
    tiles, answers = page.ask(WHOLE)
    assert tiles.startswith("These numbers are not filtered: they count all clusters, clients and topics, 2026-11-")
    assert answers == tiles.replace("numbers", "answers")
    page.click("#filter [type=reset]")
    page.wait(f"{TOLD} === 'Nothing is filtered.'")
    assert page.ask(WHOLE) == []
    assert (page.ask(HEAT), page.ask(LISTED), page.ask(LEGEND)) == before
    assert page.ask("location.hash") == ""
    assert page.faults() == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_address_brings_its_filter_and_the_filtered_page_can_be_read(
    browser: Browser, folder: Path, scheme: str
) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, scheme)
    page.ask("document.documentElement.style.scrollBehavior = 'auto'")
    page.ask("location.hash = '#cluster=elsewhere'")
    page.wait(f"{TOLD}.startsWith('Filtered by cluster elsewhere. 0 pairs')")
    page.ask("location.hash = '#storms&topic=or*&from=2026-11-22T12:00&to=2026-11-22&measure=records'")
    page.wait(f"{TOLD}.startsWith('Filtered by topic or*, time from 2026-11-22 12:00 to 2026-11-22 UTC. 3 pairs')")
    assert page.ask(HEAT) == ["checkout-7", "fraud-scoring", "mirror-eu"]
    assert page.ask("document.querySelector('#usage-stack strong').textContent").startswith("Records by client")
    assert page.ask("document.querySelector('#usage-heat-title').textContent").startswith("Records by client and topic")
    numbers = page.ask("document.querySelectorAll('#usage-stack table.numbers tbody tr').length")
    assert numbers == 4
    assert page.ask("document.querySelector('#traffic .field > svg').getAttribute('viewBox')") != "0 0 1000 180"
    assert page.ask("document.querySelector('#usage-heat td[title]').title").startswith("checkout-7, orders: produced")
    assert page.ask(CONTRASTS)["faults"] == []
    # A zoomed field counts with what is outside of it, so that all labels seem to be in it.
    assert [fault for fault in page.ask(LABELS)["faults"] if not fault.endswith("is in the plot")] == []
    page.ask("document.querySelector(\"nav a[href='#cost']\").click()")
    page.wait("location.hash.startsWith('#cost&topic=or')")
    page.point("#traffic .field", 0.5)
    assert "2026-11-22 1" in page.ask(SHOWN)
    assert page.faults() == []


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("from", "yesterday", "A time is written like 2026-11-22T15:30, or 2026-11-22 for a day."),
        ("from", "2027-01-01", "Filtered by time from 2027-01-01 UTC. 0 pairs of client and topic."),
        ("client", "nobody", "Filtered by client nobody. 0 pairs of client and topic."),
    ],
)
def test_a_filter_that_leaves_nothing_says_so(browser: Browser, folder: Path, field: str, text: str, says: str) -> None:
    page = BrowserPage(browser, folder / "story.html", 390, "light")
    page.click(f"#filter [name={field}]")
    page.type(text)
    page.press("Enter")
    assert page.ask(TOLD).startswith(says)
    assert page.ask(TOO_WIDE) == [390, []]
    if text == "nobody":
        told = page.ask("document.querySelector('#failures .unfiltered').textContent")
        assert told == "No row of this section matches the filter."
    assert page.faults() == []


def test_dragging_across_a_plot_selects_its_time(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "story.html", 1280, "light")
    page.drag("#latency .field", 0.5, 0.75)
    told = page.ask(TOLD)
    assert told.startswith("Filtered by time from 2026-11-19 ")
    assert " to 2026-11-21 " in told
    begin, _, width, _ = page.ask("document.querySelector('#traffic .field > svg').getAttribute('viewBox')").split()
    assert (float(begin), float(width)) == pytest.approx((500, 250), abs=10)
    assert page.ask("location.hash").startswith("#from=2026-11-19T")
    assert page.faults() == []


def test_the_colour_scheme_can_be_switched(browser: Browser, folder: Path) -> None:
    page = BrowserPage(browser, folder / "demo.html", 390, "light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(colour)
    assert page.ask("document.querySelector('#scheme').textContent") == "Dark colours"
    page.click("#scheme")
    assert page.ask("document.querySelector('#scheme').textContent") == "Light colours"
    assert page.ask(colour) != light
    assert page.ask(CONTRASTS)["faults"] == []
    page.press("Enter")
    assert page.ask(colour) == light


def test_no_process_of_a_browser_is_left_behind(tmp_path: Path) -> None:
    with running_chromium(tmp_path / "profile"):
        assert processes_with(tmp_path)
    assert processes_with(tmp_path) == []


def processes_with(argument: Path) -> list[str]:
    """Return the command lines of processes with this argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if str(argument) in line]
