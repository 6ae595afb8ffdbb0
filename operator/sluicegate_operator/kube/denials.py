"""Which refusals for want of rights or credentials count: those that have lasted.

An API server that comes back answers 403 until it has loaded its RBAC, and 401 while it cannot check a token yet. A
minute later it means what it says.
"""

from collections import OrderedDict

DENIED_FOR_S = 60.0
REQUESTS_MAX = 20_000
"""Requests that are remembered: all objects of a cluster with thousands of quotas may be denied together."""
STATUSES = (401, 403)


class Denials:
    """Since when each request has been denied, without another answer in between; the oldest is forgotten first."""

    def __init__(self, denied_for_s: float = DENIED_FOR_S) -> None:
        self._denied_for_s = denied_for_s
        self._since_s: OrderedDict[str, float] = OrderedDict()

    def note(self, request: str, status: int | None, now_s: float) -> None:
        """`status` of its answer; None where there was none, which says nothing."""
        if status in STATUSES:
            self._since_s.setdefault(request, now_s)
            if len(self._since_s) > REQUESTS_MAX:
                self._since_s.popitem(last=False)
        elif status is not None:
            self._since_s.pop(request, None)

    def may_pass(self, request: str, now_s: float) -> bool:
        return now_s - self._since_s.get(request, now_s) < self._denied_for_s
