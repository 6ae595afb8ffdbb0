"""A consumer of a push group: its registration, and the calls and answers since then. Pure."""

import logging
from collections.abc import Mapping, Set
from uuid import UUID

from broker_runtime.errors import KafkaError
from broker_runtime.groups.members_room import MEMBER_BYTES
from broker_runtime.groups.push.state.calls import PINGS_A_SESSION
from broker_runtime.groups.push.state.log_ends import Partition
from broker_runtime.groups.push.state.subscription import Subscription, parse_topic_count
from broker_runtime.groups.records import PushMemberValue
from broker_runtime.security.acls.topic_filter import TopicFilter

log = logging.getLogger(__name__)

_INTERVAL_MIN_S = 0.1
"""Minimum time between two pings of a consumer in seconds, even if its session is shorter."""


def size_of(value: PushMemberValue) -> int:
    """Return the bytes that a consumer takes in `members_room`, where its topics are both text and objects."""
    return MEMBER_BYTES + 2 * len(value.topic_count)


class PushMember:
    """A consumer of a push group.

    `value` is hard state; all else is soft and starts again with each registration. Answers have no numbers: they
    arrive in the order of the calls of their type. So the number of calls without an answer tells which call is
    answered.
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
        "topic_filter",
        "value",
    )

    def __init__(self, consumer_id: str, value: PushMemberValue) -> None:
        self.consumer_id = consumer_id
        self.value = value
        self.subscription = _subscription(consumer_id, value)
        self.connection: int | None = None
        """The connection of its registration; None while the consumer is only known from the log."""
        self.begin(None)

    @property
    def size(self) -> int:
        """Return the number of bytes of `members_room` that the consumer takes."""
        return size_of(self.value)

    def begin(self, connection: int | None, topic_filter: TopicFilter | None = None) -> None:
        """Begin a registration of the consumer, whose fetchers are not started yet."""
        self.connection = connection
        self.topic_filter = topic_filter
        """The topics that the consumer may describe. None: all, because there is no authorizer."""
        self.fetching = False
        """Whether the consumer got a StartFetcher and has not reported since that it has stopped."""
        self.overdue = False
        """Whether the consumer's answer to the last StopFetcher or StartFetcher is late."""
        self.pings_unanswered = 0
        self.stops_unanswered = 0
        self.starts_unanswered = 0
        self.pings_since_commit = 0
        self.assigned: Mapping[Partition, UUID] = {}
        """The last assignment sent to the consumer, with topic ids.

        Another topic may have the name by the time the consumer sends its offsets.
        """
        self.consumed: dict[Partition, int] = {}
        """The last offset of each partition that the consumer has sent since it got this assignment."""
        self.offsets_sent = 0
        """Number of the consumer's answers with offsets."""
        self.beyond: frozenset[Partition] = frozenset()
        """Partitions whose logs ended before the consumer's offset at the last check."""

    @property
    def owes_an_answer(self) -> bool:
        """Return whether a StopFetcher or StartFetcher has no answer yet."""
        return self.stops_unanswered > 0 or self.starts_unanswered > 0

    @property
    def told(self) -> Set[Partition]:
        """Return the partitions that the consumer reads, as far as is known."""
        return self.assigned.keys() if self.fetching else frozenset()

    @property
    def ping_interval_s(self) -> float:
        """Return the time between two pings in seconds: a third of the session."""
        return max(self.value.session_timeout_ms / 1_000 / PINGS_A_SESSION, _INTERVAL_MIN_S)

    @property
    def answer_timeout_s(self) -> float:
        """Return the time limit of an answer in seconds: two thirds of the session."""
        return 2 * self.ping_interval_s


def _subscription(consumer_id: str, value: PushMemberValue) -> Subscription:
    """Parse the subscription.

    If that fails, the consumer reads nothing: a broker of another version may have accepted it.
    """
    try:
        return parse_topic_count(value.topic_count)
    except KafkaError as error:
        log.error(
            "consumer %.100r reads nothing: this broker cannot parse its registered topics: %s", consumer_id, error
        )
        return Subscription({})
