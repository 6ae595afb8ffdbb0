"""The features of Apache Kafka that a broker has (KIP-584), and their levels. Pure data.

Levels are fixed: each feature is finalized at the highest supported level. Clients derive Kafka's version from
`metadata.version`, as Kafka 4 has no other place for it. Features that are left out are not served: transactions, share
groups, Streams groups, and a quorum of controllers (`kraft.version`).
"""

from collections.abc import Mapping
from typing import NamedTuple


class Levels(NamedTuple):
    """The lowest and the highest supported level."""

    lowest: int
    highest: int


FEATURES: Mapping[str, Levels] = {
    "eligible.leader.replicas.version": Levels(0, 1),
    "group.version": Levels(0, 1),
    "metadata.version": Levels(7, 30),
}
"""Levels of Apache Kafka 4.3: `metadata.version` 7 is 3.3-IV3, 30 is 4.3-IV0."""
