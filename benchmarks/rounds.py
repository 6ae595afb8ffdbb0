"""Results of several rounds: their spread as text, and the files that have them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any


def spread(values: Sequence[float], digits: int) -> str:
    """Return the median of `values` with `digits` decimals; of several values also the least and the greatest one."""
    middle = f"{median(values):,.{digits}f}"
    return f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if len(values) > 1 else middle


def write(results: Mapping[str, Any], table: str, path: Path) -> None:
    """Write the results as JSON, and their table as Markdown, to `path` with these two suffixes."""
    path.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(table, encoding="utf-8")
