"""`python -m tools.top_pictures`: writes docs/images/top-*.svg, pictures of `sluicegate top`.

The looks are the same each time. `--check` only compares: it ends with 1 if a picture differs. Textual draws the
pictures, so no browser is needed.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path

from sluicegate_operator.cli.top.console.app import TopConsole
from tests.support.fakes.synthetic_console import SyntheticSource

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LOOKS = 60
"""Number of looks before a picture, so that sparklines are full."""
PICTURES = {
    "top-80x24.svg": ((80, 24), "limits", ()),
    "top-120x40.svg": ((120, 40), "storms", ()),
    "top-200x60.svg": ((200, 60), "brokers", ()),
    "top-why-80x24.svg": ((80, 24), "addresses", ("down", "enter")),
}
_ID = re.compile(r"terminal-\d+")


async def picture(size: tuple[int, int], table: str, keys: tuple[str, ...]) -> str:
    """Return the SVG of the console after some looks and keys."""
    source = SyntheticSource(brokers=12, addresses=40, away=frozenset({2}))
    app = TopConsole(source, await source.look(), 3600.0, table=table)
    app.title = "sluicegate top"
    for _ in range(LOOKS):
        app.take(await source.look())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause(0.2)
        return _ID.sub("terminal", app.export_screenshot())


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.top_pictures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    stale = []
    for name, (size, table, keys) in PICTURES.items():
        found = asyncio.run(picture(size, table, keys))
        file = IMAGES / name
        if not file.exists() or file.read_text(encoding="utf-8") != found:
            stale.append(name)
            if not options.check:
                file.write_text(found, encoding="utf-8")
    if options.check and stale:
        sys.stderr.write(f"other pictures would be written: {', '.join(stale)}; run `python -m tools.top_pictures`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
