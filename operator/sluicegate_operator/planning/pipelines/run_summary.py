"""The summary that a run of the audit pipeline writes when it ends: one JSON object of at most 4096 bytes. Pure.

The pipeline is another program, perhaps of another version: fields that are missing or of another type are unknown.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import TABLES_MAX

LINE_MAX = 1024


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary that one run of an audit pipeline reports. Unknown fields are None.

    `error` is one line; `took_s` is the pipeline's `tookSeconds`.
    """

    window: tuple[str, str] | None = None
    events: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    missing: int | None = None
    holes: int | None = None
    quarantined_files: int | None = None
    error: str | None = None
    took_s: float | None = None

    @property
    def complete(self) -> bool | None:
        """Return whether the run reported that nothing is missing; None without a report."""
        counts = (self.missing, self.holes, self.quarantined_files)
        if any(counts):
            return False
        return None if None in counts else True


def read_summary(text: str) -> Summary | None:
    """Parse the summary of a run; None for other text, such as the end of a log."""
    try:
        read = json.loads(text)
    except ValueError:
        return None
    if not isinstance(read, dict):
        return None
    window = read.get("window")
    days = (_text(window, "from"), _text(window, "to")) if isinstance(window, dict) else (None, None)
    rows = read.get("rows")
    counted = {str(name): count for name, count in rows.items() if _is_count(count)} if isinstance(rows, dict) else {}
    took = read.get("tookSeconds")
    return Summary(
        window=(days[0], days[1]) if days[0] is not None and days[1] is not None else None,
        events=_count(read, "events"),
        rows=dict(sorted(counted.items())[:TABLES_MAX]),
        missing=_count(read, "missing"),
        holes=_count(read, "holes"),
        quarantined_files=_count(read, "quarantinedFiles"),
        error=_text(read, "error"),
        took_s=float(took) if isinstance(took, int | float) and not isinstance(took, bool) else None,
    )


def last_line(log: str) -> str:
    """Return the last line of a log, in which a program reports why it ended."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1][:LINE_MAX] if lines else ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(read: Mapping[str, Any], key: str) -> int | None:
    value = read.get(key)
    return value if _is_count(value) else None


def _text(read: Mapping[str, Any], key: str) -> str | None:
    value = read.get(key)
    line = next((line.strip() for line in value.splitlines() if line.strip()), "") if isinstance(value, str) else ""
    return line[:LINE_MAX] or None
