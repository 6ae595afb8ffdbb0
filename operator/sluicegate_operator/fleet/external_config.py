"""Which keys of spec.config brokers that others run do not let anybody change while they run: they say so themselves.

Kafka takes a key that it does not know, and shows it to nobody afterwards, so it is asked before.
"""

from collections.abc import Collection

from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.views import ConfigEntry, Configs


async def why_not_dynamic(pool: BrokerPool, keys: Collection[str]) -> dict[str, str]:
    """By key, a sentence for each that is not to be set. Raises what BrokerPool.ask_any raises."""
    if not keys:
        return {}

    async def look(broker: BrokerAddress, handle: BrokerHandle) -> Configs:
        return await handle.describe_broker_configs(broker.broker_id, sorted(keys))

    found = await pool.ask_any(look)
    sentences = {key: _why(key, found.get(key)) for key in sorted(keys)}
    return {key: sentence for key, sentence in sentences.items() if sentence}


def _why(key: str, entry: ConfigEntry | None) -> str:
    if entry is None or (entry.is_sensitive and entry.read_only):
        return f"the brokers know no key {key}"
    if entry.read_only:
        return f"the brokers read {key} when they start only: set it in their own properties, and take it out of config"
    if entry.is_sensitive:
        return f"the brokers do not show {key}, so nobody could tell whether it is set: set it with Kafka's tools"
    return ""
