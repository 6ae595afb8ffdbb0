"""What a node does about changed metadata: each step in its own boundary, and again later where it has failed.

A step goes by the metadata as it is when it runs, so that doing it again, or once for several changes, is right.
"""

import logging
from collections.abc import Callable

from broker_runtime.apis.context import Timer
from broker_runtime.replication.backoff import Backoff

log = logging.getLogger(__name__)

_RETRY_MAX_S = 30.0


class Reactions:
    def __init__(self, call_later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._call_later = call_later
        self._failed: dict[str, tuple[Backoff, Timer]] = {}
        """By the name of the step; as many as there are topics, and a few."""

    def run(self, name: str, step: Callable[[], None]) -> None:
        """`step` now; when it raises that is logged and it is done again, less and less often, until it succeeds."""
        backoff = Backoff(_RETRY_MAX_S)
        if name in self._failed:
            backoff, timer = self._failed.pop(name)
            timer.cancel()
        try:
            step()
        except Exception as error:
            if backoff.is_news(repr(error)):
                log.exception("%s failed, it is tried again", name)
            self._failed[name] = backoff, self._call_later(backoff.failed(), lambda: self.run(name, step))
        else:
            if backoff.succeeded():
                log.info("%s has succeeded now", name)

    @property
    def failing(self) -> list[str]:
        return sorted(self._failed)

    def close(self) -> None:
        for _, timer in self._failed.values():
            timer.cancel()
        self._failed.clear()
