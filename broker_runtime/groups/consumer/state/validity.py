"""Checks of a ConsumerGroupHeartbeat that do not depend on the group. Pure."""

from typing import NamedTuple

from broker_runtime.config.keys.groups import GroupConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.state.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from broker_runtime.groups.kinds import TEXT_BYTES_MAX
from broker_runtime.groups.records import Assignment
from broker_runtime.security.acls.topic_filter import TopicFilter

_OWN_IDS_SINCE = 1


class ConsumerHeartbeatRequest(NamedTuple):
    """A ConsumerGroupHeartbeat request. None, or a timeout of -1, means that a property has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    """The partitions that the member owns now."""
    client_id: str = ""
    client_host: str = ""
    api_version: int = 1
    topic_filter: TopicFilter | None = None
    """The topics that the member may describe; None for all topics, without an authorizer."""

    @property
    def is_join(self) -> bool:
        return self.member_epoch == 0

    @property
    def changes_nothing(self) -> bool:
        """Whether the request only renews the session, and perhaps reports owned partitions."""
        return (
            self.subscribed_topic_names is None
            and self.rebalance_timeout_ms == -1
            and self.subscribed_topic_regex is None
            and self.server_assignor is None
            and self.rack_id is None
        )

    @property
    def is_full(self) -> bool:
        """Return whether the request has all properties.

        A member sends all of them if it cannot know what the coordinator has.
        """
        subscribes = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.is_join or (self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None)


def check_request(request: ConsumerHeartbeatRequest, config: GroupConfig) -> None:
    """Check a ConsumerGroupHeartbeat request. Raises KafkaError (INVALID_REQUEST, UNSUPPORTED_ASSIGNOR)."""
    assignors = config.group_consumer_assignors
    if not request.member_id.strip() and _must_have_id(request):
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    _check_lengths(request)
    if request.is_join:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    named, named_max = len(request.subscribed_topic_names or ()), config.sluicegate_group_member_topics_max
    if named > named_max:
        raise _invalid(
            f"SubscribedTopicNames has {named} topics; sluicegate.group.member.topics.max allows {named_max}. "
            "Subscribe to fewer topics, or raise the limit."
        )
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(sorted(assignors))}.",
        )


def _check_lengths(request: ConsumerHeartbeatRequest) -> None:
    """Check the lengths of the ids, the rack and the expression. Raises KafkaError (INVALID_REQUEST).

    The encoder of the member's record checks the lengths of topic names.
    """
    for name, text in (
        ("GroupId", request.group_id),
        ("MemberId", request.member_id),
        ("InstanceId", request.instance_id or ""),
        ("RackId", request.rack_id or ""),
        ("SubscribedTopicRegex", request.subscribed_topic_regex or ""),
    ):
        size = len(text.encode())
        if size > TEXT_BYTES_MAX:
            raise _invalid(f"{name} has {size} bytes; at most {TEXT_BYTES_MAX} are allowed.")


def _must_have_id(request: ConsumerHeartbeatRequest) -> bool:
    """Whether the request must have a member id.

    Since version 1, a member chooses its id. Before, the coordinator assigns one to a member that joins without.
    """
    return request.api_version >= _OWN_IDS_SINCE or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH


def _check_join(request: ConsumerHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
