"""`python -m tests.support.audit.report_images` writes pictures of the report to docs/images."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from audit_pipeline.report.writing import write_report
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_results import publish_rows, story
from tests.support.obtain.chromium import BrowserPage, running_chromium

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
PICTURES = (
    ("answers", 1280, "light", "header", "#answers"),
    ("clients", 1280, "light", "#filter", "#usage-list tbody tr:nth-child(7)"),
    ("clients-dark", 1280, "dark", "#filter", "#usage-heat"),
    ("time", 1280, "dark", "#traffic > div", "#latency figure:nth-child(2)"),
    ("storm", 1280, "light", "#storms h3", "#storms > article"),
    ("top", 1280, "dark", "#top h2", "#top .ranking"),
    ("idle", 1280, "light", "#idle h2", "#idle tbody tr:nth-child(12)"),
    ("phone", 390, "dark", "header", "#answers article:nth-child(3)"),
)
"""Name, width and colour scheme, and the first and last element of the picture."""


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        publish_rows(root / "results", story(names=()))
        write_report(FolderTarget(root / "results"), root / "report.html")
        with running_chromium(root / "profile") as browser:
            for name, width, scheme, first, last in PICTURES:
                page = BrowserPage(browser, root / "report.html", width, scheme)
                picture = Image.open(io.BytesIO(page.picture(first, last)))
                # A page has few colours; with so many a picture is a third of the size and looks the same.
                picture.quantize(96).save(IMAGES / f"audit-report-{name}.png", optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
