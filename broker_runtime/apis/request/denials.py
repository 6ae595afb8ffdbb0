"""Counts and logs what the authorizer has denied."""

import logging
from collections import Counter
from collections.abc import Callable

from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.security.principal import Principal
from kafka_bytes.printable import printable

log = logging.getLogger(__name__)

_INTERVAL_S = 10.0
_SHOWN_CHARACTERS = 200


class Denials:
    """The numbers of denied checks.

    One denial per interval is logged, with the number of the others.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._logged_s = float("-inf")
        self._unlogged = 0
        self.counts: Counter[tuple[AclResource, AclOperation]] = Counter()
        """Denied checks by type of resource and operation, without those that only filter an answer."""

    def note(
        self, principal: Principal, host: str, api: str, operation: AclOperation, resource: AclResource, name: str
    ) -> None:
        """Count one denied check, and log it if none was logged in this interval."""
        self.counts[resource, operation] += 1
        now_s = self._now_s()
        if now_s - self._logged_s < _INTERVAL_S:
            self._unlogged += 1
            return
        others, self._unlogged, self._logged_s = self._unlogged, 0, now_s
        log.info(
            "%s from %s is denied %s on %s %r for %s%s",
            printable(str(principal)[:_SHOWN_CHARACTERS]),
            host,
            operation.name,
            resource.name,
            name[:_SHOWN_CHARACTERS],
            api,
            f"; since the last such line, {others} other checks were denied" if others else "",
        )
