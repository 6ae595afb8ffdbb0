"""Which values of configurations are shown: those of keys that this broker knows and that are not secret. Pure."""

from typing import Final

from broker_runtime.config import TOPIC_KEYS, ConfigKey, broker_key
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.keys.client_metrics import CLIENT_METRICS_KEYS
from broker_runtime.config.keys.group_resource import GROUP_KEYS

SENSITIVE: Final = "sensitive"
"""Text in place of a value that is secret, or whose key this broker does not know: it may be a misspelt password."""

TEXT_CHARS_MAX: Final = 1000
"""Maximum number of characters of a text. Longer texts are cut."""

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
RESOURCE_TYPES: Final = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "broker logger",
    CLIENT_METRICS: "client metrics",
    GROUP: "group",
}
"""Names of configured resources, by the admin protocol's numbers of their types."""


def shown_value(resource_type: int, key: str, value: str | None) -> str | None:
    """Return the value of a configuration key as recorded: a secret becomes SENSITIVE, None stays None."""
    if value is None:
        return None
    if resource_type == BROKER_LOGGER:
        return cut(value)
    known = _key(resource_type, key)
    return SENSITIVE if known is None or known.sensitive else cut(value)


def cut(text: str) -> str:
    """Return a text of at most TEXT_CHARS_MAX characters."""
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}... ({len(text)} characters)"


def _key(resource_type: int, key: str) -> ConfigKey | None:
    if resource_type == TOPIC:
        return TOPIC_KEYS.get(key) or unused_keys("topic").get(key)
    if resource_type == BROKER:
        return broker_key(key)
    if resource_type == GROUP:
        return GROUP_KEYS.get(key) or unused_keys("group").get(key)
    if resource_type == CLIENT_METRICS:
        return CLIENT_METRICS_KEYS.get(key)
    return None
