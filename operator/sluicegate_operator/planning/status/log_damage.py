"""The condition LogsDamaged of a cluster, derived from its brokers' reports. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_operator.planning.status.conditions import Finding

LOGS_DAMAGED = "LogsDamaged"
MESSAGE_MAX = 4096
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class BrokerDamage:
    """The damage of one broker's logs.

    `ranges`: number of offset ranges that the broker cannot read. `sentences`: half a sentence for each partition that
    has such ranges or is not served.
    """

    ranges: int
    sentences: tuple[str, ...]

    @property
    def is_damaged(self) -> bool:
        return self.ranges > 0 or bool(self.sentences)


def damage_finding(damage: Mapping[int, BrokerDamage]) -> Finding:
    """Return the condition about damaged logs. `damage` is by broker id and includes brokers without damage."""
    if not any(one.is_damaged for one in damage.values()):
        return Finding(LOGS_DAMAGED, False, "NoDamage", f"{len(damage)} brokers can read all of their logs")
    named = [
        f"broker {broker_id}: {sentence}" for broker_id, one in sorted(damage.items()) for sentence in one.sentences
    ]
    more = f"; and {len(named) - _NAMED_MAX} more partitions" if len(named) > _NAMED_MAX else ""
    message = f"{'; '.join(named[:_NAMED_MAX])}{more}. `sluicegate damage list` shows all of them"
    return Finding(LOGS_DAMAGED, True, "OffsetsUnreadable", message[:MESSAGE_MAX])
