"""What is held of one kind, and how far anybody may go by it."""

import asyncio
from dataclasses import dataclass, field

from sluicegate_operator.kube.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.kind_cache import KindCache
from sluicegate_operator.kube.watching import Watched

BROKEN_MAX_S = 10.0
"""What is known is still told for so long after a watch has failed."""
SILENT_PERIODS = 2.5
"""And for so many of its periods when it says nothing at all."""


@dataclass(slots=True)
class Watchfulness:
    """How one kind's watch does. Times are of time.monotonic, which all threads share."""

    watched: Watched
    objects: KindCache = field(default_factory=KindCache)
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    last_word_s: float = 0.0
    trouble: KubeError | None = None
    version: int = 0
    """Everything up to it has been told by the watch."""
    lists: int = 0

    def why_unknown(self, now_s: float) -> KubeError | None:
        """Why nobody may go by what is held; None where everybody may."""
        quiet_s = now_s - self.last_word_s
        if self.trouble is not None and (not self.filled.is_set() or quiet_s > BROKEN_MAX_S):
            return self.trouble
        if not self.filled.is_set():
            return KubeUnavailableError(f"{self.watched.kind.plural} have not been listed yet")
        if quiet_s > SILENT_PERIODS * self.watched.period_s:
            return KubeUnavailableError(f"the watch of {self.watched.kind.plural} has been silent for {quiet_s:.0f} s")
        return None
