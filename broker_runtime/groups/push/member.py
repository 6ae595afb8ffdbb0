"""A consumer of a push group: what it registered with, and what was asked of it since. Pure."""

import logging
from collections.abc import Mapping, Set
from uuid import UUID

from broker_runtime.errors import KafkaError
from broker_runtime.groups.push.calls import PINGS_A_SESSION
from broker_runtime.groups.push.log_ends import Partition
from broker_runtime.groups.push.subscription import Subscription, parse_topic_count
from broker_runtime.groups.records import PushMemberValue

log = logging.getLogger(__name__)

_INTERVAL_MIN_S = 0.1
"""Between two pings of a consumer, however short its session is."""


class PushMember:
    """`value` is hard state; all else is soft, and begins anew with each registration.

    Answers have no numbers: they come in the order of the calls of their type, so that counts of calls without an
    answer say which one is answered.
    """

    __slots__ = (
        "assigned",
        "beyond",
        "connection",
        "consumed",
        "consumer_id",
        "fetching",
        "offsets_sent",
        "overdue",
        "pings_since_commit",
        "pings_unanswered",
        "starts_unanswered",
        "stops_unanswered",
        "subscription",
        "value",
    )

    def __init__(self, consumer_id: str, value: PushMemberValue) -> None:
        self.consumer_id = consumer_id
        self.value = value
        self.subscription = _subscription(consumer_id, value)
        self.connection: int | None = None
        """The one that it registered on; None while it is known from the log only."""
        self.begin(None)

    def begin(self, connection: int | None) -> None:
        """It registers: its fetchers have not been started."""
        self.connection = connection
        self.fetching = False
        """It was told to start, and has not said since that it has stopped."""
        self.overdue = False
        """What it was last told to do it has not answered in time."""
        self.pings_unanswered = 0
        self.stops_unanswered = 0
        self.starts_unanswered = 0
        self.pings_since_commit = 0
        self.assigned: Mapping[Partition, UUID] = {}
        """What it was last told to read, of which topic: another may have the name by the time it tells how far."""
        self.consumed: dict[Partition, int] = {}
        """The last offset of each partition that the consumer has sent since it got this assignment."""
        self.offsets_sent = 0
        """How many of its answers have had offsets."""
        self.beyond: frozenset[Partition] = frozenset()
        """Partitions whose logs ended before its offset when that was checked last."""

    @property
    def owes_an_answer(self) -> bool:
        """It was told to stop or to start, and has not said that it did."""
        return self.stops_unanswered > 0 or self.starts_unanswered > 0

    @property
    def told(self) -> Set[Partition]:
        """What it reads, as far as is known."""
        return self.assigned.keys() if self.fetching else frozenset()

    @property
    def ping_interval_s(self) -> float:
        """A third of its session."""
        return max(self.value.session_timeout_ms / 1_000 / PINGS_A_SESSION, _INTERVAL_MIN_S)

    @property
    def answer_timeout_s(self) -> float:
        """Two thirds of its session."""
        return 2 * self.ping_interval_s


def _subscription(consumer_id: str, value: PushMemberValue) -> Subscription:
    """It reads nothing if it cannot be parsed: another version of the broker may have stored it by other rules."""
    try:
        return parse_topic_count(value.topic_count)
    except KafkaError as error:
        log.error("consumer %.100r reads nothing: what it registered with is not understood: %s", consumer_id, error)
        return Subscription({})
