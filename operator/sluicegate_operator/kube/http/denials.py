"""Which answers 401 and 403 count as final: those that have lasted.

An API server that recovers answers 403 until it has loaded its RBAC, and 401 while it cannot check tokens. A minute
later these answers are reliable.
"""

from collections import OrderedDict

DENIED_FOR_S = 60.0
REQUESTS_MAX = 20_000
"""Maximum number of remembered requests.

All objects of a cluster with thousands of quotas may be denied together.
"""
STATUSES = (401, 403)


class Denials:
    """The times since when requests have been denied without another answer. The oldest entry is evicted first."""

    def __init__(self, denied_for_s: float = DENIED_FOR_S) -> None:
        self._denied_for_s = denied_for_s
        self._since_s: OrderedDict[str, float] = OrderedDict()

    def note(self, request: str, status: int | None, now_s: float) -> None:
        """Record the HTTP status of the API server's answer. None, for no answer, changes nothing."""
        if status in STATUSES:
            self._since_s.setdefault(request, now_s)
            if len(self._since_s) > REQUESTS_MAX:
                self._since_s.popitem(last=False)
        elif status is not None:
            self._since_s.pop(request, None)

    def may_pass(self, request: str, now_s: float) -> bool:
        return now_s - self._since_s.get(request, now_s) < self._denied_for_s
