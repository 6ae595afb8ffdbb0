"""The registration of a consumer, and its checks. Pure."""

from typing import NamedTuple

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.push.state.calls import PINGS_A_SESSION
from broker_runtime.groups.push.state.subscription import parse_topic_count
from broker_runtime.groups.records import PushMemberValue

SMALLEST, LARGEST = "smallest", "largest"
"""Values of the draft's auto_offset_rest: where a consumer without a committed offset starts."""


class ConsumerRegistration(NamedTuple):
    """A RegisterConsumerRequest, and the host of the client that sent it."""

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_reset: str
    session_timeout_ms: int
    client_host: str

    @property
    def value(self) -> PushMemberValue:
        return PushMemberValue(
            self.topic_count, self.auto_commit, self.auto_offset_reset, self.session_timeout_ms, self.client_host
        )


def check_registration(asked: ConsumerRegistration, config: BrokerConfig) -> None:
    """Check the registration apart from its group. Raises KafkaError."""
    if not asked.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not asked.consumer_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer id is empty")
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest <= asked.session_timeout_ms <= longest:
        raise KafkaError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session timeout must be {shortest} to {longest} ms (group.min.session.timeout.ms, "
            f"group.max.session.timeout.ms), not {asked.session_timeout_ms}",
        )
    idle_ms = config.connections_max_idle_ms
    if asked.session_timeout_ms > PINGS_A_SESSION * idle_ms:
        raise KafkaError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"with a ping every third of {asked.session_timeout_ms} ms, the connection would be closed as idle "
            f"between two pings (connections.max.idle.ms is {idle_ms})",
        )
    if asked.auto_offset_reset not in (SMALLEST, LARGEST):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"auto_offset_rest must be {SMALLEST} or {LARGEST}, not {asked.auto_offset_reset!r}",
        )
    parse_topic_count(asked.topic_count)
