"""Find the keys of spec.config that external brokers do not let clients change while they run: brokers report them.

Kafka accepts an unknown key, and does not show it to any client afterwards, so the keys are checked before.
"""

from collections.abc import Collection

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.views import ConfigEntry, Configs


async def why_not_dynamic(pool: BrokerPool, keys: Collection[str]) -> dict[str, str]:
    """Return why keys must not be set dynamically: a sentence for each such key, by key.

    Raises the errors of BrokerPool.ask_any.
    """
    if not keys:
        return {}

    async def read(broker: BrokerAddress, handle: BrokerHandle) -> Configs:
        return await handle.describe_broker_configs(broker.broker_id, sorted(keys))

    found = await pool.ask_any(read)
    sentences = {key: _why(key, found.get(key)) for key in sorted(keys)}
    return {key: sentence for key, sentence in sentences.items() if sentence}


def _why(key: str, entry: ConfigEntry | None) -> str:
    if entry is None or (entry.is_sensitive and entry.read_only):
        return f"the brokers do not know the key {key}"
    if entry.read_only:
        return f"the brokers read {key} only when they start: set it in their own properties, and remove it from config"
    if entry.is_sensitive:
        return (
            f"the brokers do not return the value of {key}, so the operator cannot check it: set it with Kafka's tools"
        )
    return ""
