"""A broker's description of itself from the metadata, so that other brokers can return it while it is away. Pure.

The broker's own statements are in its registration: its capabilities, and the tags of its file. The dynamic
configuration, of the broker and of all, overrides its file.
"""

from collections.abc import Sequence

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.config.keys.tags import BROKER_ID, BUILT_IN_TAGS, ENDPOINTS, MESSAGE_MAX_BYTES, tags_in
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.areas.brokers import BrokerEndpoint, BrokerInfo
from broker_runtime.metadata.areas.configs import Configs

_PROTOCOLS = {0: "plaintext", 1: "ssl", 2: "sasl_plaintext", 3: "sasl_ssl"}
"""Names of security protocols by Kafka's numbers."""


def broker_tags(broker: BrokerInfo, configs: Configs) -> Sequence[tuple[str, str]]:
    """Return the built-in tags of a broker in the order of the table, then its other tags by name.

    A broker whose release registers no tags has only those that follow from its registration.
    """
    told = dict(broker.tags)
    dynamic = {**configs.of_broker(None), **configs.of_broker(broker.id)}
    known = {**told, BROKER_ID: str(broker.id), ENDPOINTS: ",".join(map(_address, broker.endpoints))}
    limit = _limit(dynamic.get(MESSAGE_MAX_BYTES))
    if limit is not None:
        known[MESSAGE_MAX_BYTES] = limit
    built_in = {tag.name: known[tag.name] for tag in BUILT_IN_TAGS if tag.name in known}
    others = {**told, **tags_in(dynamic)}
    return [*built_in.items(), *((name, others[name]) for name in sorted(others.keys() - built_in.keys()))]


def _limit(text: str | None) -> str | None:
    """Return the value in its canonical form; None if it is not set, or if brokers ignore it because it is invalid."""
    if text is None:
        return None
    key = BrokerConfig.message_max_bytes
    try:
        return key.render(key.parse(text))
    except ConfigError:
        return None


def _address(endpoint: BrokerEndpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{_PROTOCOLS.get(endpoint.security_protocol, endpoint.security_protocol)}://{host}:{endpoint.port}"
