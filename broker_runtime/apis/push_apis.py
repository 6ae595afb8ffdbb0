"""What frames of the push protocol are called where requests are counted and recorded. Pure data.

The coordinator's calls are not requests to this broker; the answers to them are, and have the names of the calls.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker_runtime.wire.push import layouts

_NEVER = 1
"""Versions there are none, and this is after the only one."""


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
