"""Names of the push protocol's frames in metrics and recordings of requests. Pure data.

The coordinator's calls are not requests to this broker. The consumers' answers count as requests, with the names of the
calls.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kafka_bytes import own_keys

_NEVER = 1
"""A version after the only one, 0, because the push protocol has no flexible version."""


class PushApi(NamedTuple):
    """A request type of the push protocol, as an API for observers and metrics: implements `call.Api`."""

    key: int
    name: str
    versions: tuple[int, int] = (0, 0)
    flexible_from: int = _NEVER
    outlives_client: bool = False


PUSH_APIS: Mapping[int, PushApi] = {
    api.key: api
    for api in (
        PushApi(own_keys.CLUSTER_METADATA, "ClusterMetadata"),
        PushApi(own_keys.REGISTER_CONSUMER, "RegisterConsumer"),
        PushApi(own_keys.PING, "Ping"),
        PushApi(own_keys.STOP_FETCHER, "StopFetcher"),
        PushApi(own_keys.START_FETCHER, "StartFetcher"),
    )
}
