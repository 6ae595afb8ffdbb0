"""Partition assignors (KIP-848): pure functions of members and topics, under Kafka's names."""

from collections.abc import Mapping

from broker_runtime.groups.assignors.description import Assignor, MemberSubscription, TopicDescription
from broker_runtime.groups.assignors.range import assign_range
from broker_runtime.groups.assignors.uniform import assign_uniform

__all__ = ["ASSIGNORS", "Assignor", "MemberSubscription", "TopicDescription"]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
