"""Count refusals and failures by kind, and decide which of them to log. Pure.

A flood of bad clients costs one line per kind and interval; the line states how many it stands for. Kinds come from a
small fixed set (they label a counter), never from what a client sent.
"""

MAX_KINDS = 64


class RefusalLog:
    """Limits how often refusals are logged.

    `note` returns the line to log, or None if that kind was logged within the interval.
    """

    __slots__ = ("_interval_ms", "_logged_ms", "_suppressed", "totals")

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._logged_ms: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}
        self.totals: dict[str, int] = {}

    def note(self, kind: str, text: str, now_ms: int) -> str | None:
        if kind not in self.totals and len(self.totals) >= MAX_KINDS:
            kind = "other"
        self.totals[kind] = self.totals.get(kind, 0) + 1
        logged_ms = self._logged_ms.get(kind)
        if logged_ms is not None and now_ms - logged_ms < self._interval_ms:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return None
        self._logged_ms[kind] = now_ms
        suppressed = self._suppressed.pop(kind, 0)
        return f"{kind}: {text} ({suppressed} more like this since the last line)" if suppressed else f"{kind}: {text}"
