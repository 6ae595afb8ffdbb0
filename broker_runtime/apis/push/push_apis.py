"""Names of the push protocol's frames in metrics and recordings of requests. Pure data.

The coordinator's calls are not requests to this broker. The consumers' answers count as requests, with the names of the
calls.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker_runtime.wire.push import layouts

_NEVER = 1
"""A version after the only one, 0, because the push protocol has no flexible version."""


class PushApi(NamedTuple):
    """Implements `call.Api`."""

    key: int
    name: str
    versions: tuple[int, int] = (0, 0)
    flexible_from: int = _NEVER


PUSH_APIS: Mapping[int, PushApi] = {
    api.key: api
    for api in (
        PushApi(layouts.CLUSTER_METADATA, "ClusterMetadata"),
        PushApi(layouts.REGISTER_CONSUMER, "RegisterConsumer"),
        PushApi(layouts.PING, "Ping"),
        PushApi(layouts.STOP_FETCHER, "StopFetcher"),
        PushApi(layouts.START_FETCHER, "StartFetcher"),
    )
}
