"""Tells brokers which ConnectionQuota has set a limit, so that their audit events name it.

The names are a configuration value of the cluster that limits nothing. It is sent apart from the limits: a broker of an
older version refuses a key that it does not know, and would refuse the limits with it. The operator first asks a broker
whether it knows the key. Names that could not be sent are sent with the next pass.

`value_of` is pure.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluicegate_operator.api.configs.config_keys import ADAPTIVE_P99, QUOTA_NAMES
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.broker_limits import apply_actions, config_layer
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.views import ConfigSource
from sluicegate_operator.planning.limits.limits import (
    CONNECTION_CREATION_RATE,
    COUNT,
    COUNT_PER_IP,
    RATE,
    SetBrokerConfigs,
)
from sluicegate_operator.quotas.model.quota_keys import limit_values
from sluicegate_operator.quotas.model.strictest import winners_of
from sluicegate_operator.quotas.model.targets import LimitField, TargetKey, TargetKind
from sluicegate_operator.quotas.plan import QuotaPlan

log = logging.getLogger(__name__)

_COUNTS: Final = (COUNT, COUNT_PER_IP)
_RATES: Final = (RATE, CONNECTION_CREATION_RATE, ADAPTIVE_P99)
"""Keys by which brokers name the limit that a connection has met. Others only say how a limit is enforced."""
BYTES_MAX: Final = 32_767
"""Maximum length of a configuration value in Kafka. Limits of listeners whose names do not fit have no name."""


def value_of(plan: QuotaPlan) -> str:
    """Return the names of the quotas whose limits on the broker, on listeners and on all addresses are in force."""
    targets = [TargetKey(TargetKind.BROKER), TargetKey(TargetKind.DEFAULT_IP), *sorted(plan.read_often.listeners)]
    value = ""
    for item in (item for target in targets for item in sorted(_items(plan, target))):
        longer = f"{value},{item}" if value else item
        if len(longer) > BYTES_MAX:
            break
        value = longer
    return value


def _items(plan: QuotaPlan, target: TargetKey) -> Iterator[str]:
    ruling = plan.rulings.get(target)
    if ruling is None or ruling.limits is None:
        return
    rivals = [claim.quota for claim in ruling.claims if ruling.verdicts[claim.quota.name].target_found]
    winners = winners_of(rivals)
    for limit in limit_values(target, ruling.limits):
        # The rate of all addresses is the client quota of Kafka's default entity.
        key = limit if isinstance(limit, str) else limit[1]
        field = LimitField.COUNT if key.endswith(_COUNTS) else LimitField.RATE if key.endswith(_RATES) else None
        if field is not None:
            _, name = winners[field]
            yield f"{key}={rivals[0].namespace}/{name}"


@dataclass(slots=True)
class _Sent:
    """The value that brokers have; None if it is not known."""

    value: str | None = None


class QuotaNames:
    """Sends the names to the brokers of each cluster."""

    def __init__(self) -> None:
        self._sent = ByCluster(_Sent)

    async def send(self, cluster: BrokerCluster, pool: BrokerPool, plan: QuotaPlan, *, check: bool) -> None:
        """Send the names if they have changed. `check`: ask brokers, too, whether they still have them."""
        sent, wanted = self._sent.of(cluster), value_of(plan)
        if sent.value == wanted and not check:
            return
        if sent.value is None and not wanted:
            # Names of limits that are not in force are never used.
            return
        sent.value = None
        try:
            present = await pool.ask_any(_read)
        except (KafkaAdminError, NoBrokerError) as error:
            log.debug("the names of quotas were not sent: %s", error)
            return
        if present is not None and present != wanted:
            change = {QUOTA_NAMES: wanted} if wanted else {}
            action = SetBrokerConfigs(None, change, () if wanted else (QUOTA_NAMES,))
            for failure in await apply_actions(pool, [action]):
                log.debug("the names of quotas were not set: %s", failure.error)
                return
        sent.value = wanted

    def forget(self, cluster: ClusterKey) -> None:
        """Forget a cluster that was deleted."""
        self._sent.forget(cluster)


async def _read(broker: BrokerAddress, handle: BrokerHandle) -> str | None:
    """Return the present value on a broker; None if its version does not know the key."""
    configs = await handle.describe_broker_configs(broker.broker_id, [QUOTA_NAMES])
    if QUOTA_NAMES not in configs:
        return None
    return config_layer(configs, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG).get(QUOTA_NAMES, "")
