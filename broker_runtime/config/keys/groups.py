"""The keys of group coordinators and of __consumer_offsets, and the rules between them. Pure.

Names, defaults and rules are Apache Kafka's, except for the sizes of groups, which are limited here.
"""

from dataclasses import dataclass

from broker_runtime.config.declaring.allowed import OneOf, at_least, each_of
from broker_runtime.config.declaring.declaration import Config, dynamic, static
from broker_runtime.config.declaring.definition import Key, Type

INT, LONG, SHORT, LIST, STRING = Type.INT, Type.LONG, Type.SHORT, Type.LIST, Type.STRING
CLASSIC, CONSUMER = "classic", "consumer"
MEMBERS_MAX = 20_000
"""Maximum number of members with which a group rebalances without delaying other clients. Kafka has no limit."""


class OffsetsConfig(Config):
    """Configuration keys of the topic __consumer_offsets, and of the time for which it keeps committed offsets."""

    offsets_topic_num_partitions: Key[int] = static(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of __consumer_offsets; must not change once the topic exists.",
        at_least(1),
    )
    offsets_topic_replication_factor: Key[int] = static(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replicas with which __consumer_offsets is created; fewer while there are fewer brokers. An existing topic "
        "keeps its number of replicas until it is reassigned.",
        at_least(1),
    )
    offsets_topic_segment_bytes: Key[int] = static(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "Size at which segments of __consumer_offsets are rolled.",
        at_least(14),
    )
    offsets_retention_minutes: Key[int] = static(
        "offsets.retention.minutes",
        INT,
        10_080,
        "Committed offsets are kept for so long after their group has lost its last member. If no member subscribes "
        "to their topic, the time begins when they are committed.",
        at_least(1),
    )
    offsets_retention_check_interval_ms: Key[int] = static(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often the coordinator checks for expired offsets.",
        at_least(1),
    )
    offset_metadata_max_bytes: Key[int] = static(
        "offset.metadata.max.bytes",
        INT,
        4_096,
        "Longest metadata text that a client may commit with an offset, in characters as in Kafka.",
        at_least(0),
    )
    offsets_commit_timeout_ms: Key[int] = static(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "Longest wait for the replicas of __consumer_offsets; after it the client gets a retriable error.",
        at_least(1),
    )


class ClassicGroupConfig(Config):
    """Configuration keys of groups of the classic protocol, and of the protocols that are served."""

    group_coordinator_rebalance_protocols: Key[tuple[str, ...]] = static(
        "group.coordinator.rebalance.protocols",
        LIST,
        (CLASSIC, CONSUMER),
        "Protocols that members may use. Without consumer, requests of KIP-848 are refused (UNSUPPORTED_VERSION). "
        "share and streams change nothing, because the broker has no groups of these types.",
        each_of(CLASSIC, CONSUMER, "share", "streams"),
    )
    group_min_session_timeout_ms: Key[int] = static(
        "group.min.session.timeout.ms", INT, 6_000, "Shortest session timeout that a member may request.", at_least(0)
    )
    group_max_session_timeout_ms: Key[int] = static(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "Longest session timeout that a member may request.",
        at_least(0),
    )
    group_initial_rebalance_delay_ms: Key[int] = static(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
        at_least(0),
    )
    group_max_size: Key[int] = static(
        "group.max.size",
        INT,
        MEMBERS_MAX,
        "Members of one group of the classic protocol, or consumers of one group of the push protocol, at most "
        "(Kafka: 2147483647).",
        at_least(1),
    )
    sluicegate_group_member_bytes_max: Key[int] = static(
        "sluicegate.group.member.bytes.max",
        INT,
        1_048_576,
        "Bytes of the metadata of one member of a group of the classic protocol, in all its protocols together; also "
        "of what the group's leader assigns to it. More is refused (INVALID_REQUEST).",
        at_least(1),
    )
    sluicegate_group_member_protocols_max: Key[int] = static(
        "sluicegate.group.member.protocols.max",
        INT,
        100,
        "Protocols (assignors) that a member of a group of the classic protocol may list. More are refused "
        "(INVALID_REQUEST).",
        at_least(1),
    )
    sluicegate_group_member_topics_max: Key[int] = static(
        "sluicegate.group.member.topics.max",
        INT,
        10_000,
        "Topics to which a consumer may subscribe in a group of the classic protocol or of KIP-848. More names are "
        "refused (INVALID_REQUEST). If a regular expression of KIP-848 matches more topics, it keeps those that it "
        "matched before, and the broker logs a warning.",
        at_least(1),
    )
    sluicegate_group_topics_max: Key[int] = static(
        "sluicegate.group.topics.max",
        INT,
        50_000,
        "Different topics to which the consumers of one group may subscribe together. In a group of KIP-848 a "
        "subscription beyond the limit is refused (INVALID_REQUEST), and a regular expression that would match more "
        "gets no other topics. In a group of the classic protocol with more topics, no offset expires, and "
        "OffsetDelete deletes none (GROUP_SUBSCRIBED_TO_TOPIC).",
        at_least(1),
    )
    sluicegate_group_assignments_bytes_max: Key[int] = static(
        "sluicegate.group.assignments.bytes.max",
        INT,
        16_777_216,
        "Bytes that the leader of a group of the classic protocol may assign to all members together. Larger "
        "assignments are refused (INVALID_REQUEST).",
        at_least(1),
    )


class ConsumerGroupConfig(Config):
    """Configuration keys of the groups of KIP-848."""

    group_consumer_session_timeout_ms: Key[int] = static(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "A member of a group of KIP-848 that sends no heartbeat for so long is removed.",
        at_least(1),
    )
    group_consumer_min_session_timeout_ms: Key[int] = static(
        "group.consumer.min.session.timeout.ms", INT, 45_000, "Shortest session timeout of a group.", at_least(1)
    )
    group_consumer_max_session_timeout_ms: Key[int] = static(
        "group.consumer.max.session.timeout.ms", INT, 60_000, "Longest session timeout of a group.", at_least(1)
    )
    group_consumer_heartbeat_interval_ms: Key[int] = static(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "Heartbeat interval that the coordinator gives to members.",
        at_least(1),
    )
    group_consumer_min_heartbeat_interval_ms: Key[int] = static(
        "group.consumer.min.heartbeat.interval.ms", INT, 5_000, "Shortest heartbeat interval of a group.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: Key[int] = static(
        "group.consumer.max.heartbeat.interval.ms", INT, 15_000, "Longest heartbeat interval of a group.", at_least(1)
    )
    sluicegate_group_consumer_rebalance_heartbeat_interval_ms: Key[int] = static(
        "sluicegate.group.consumer.rebalance.heartbeat.interval.ms",
        INT,
        1_000,
        "Heartbeat interval of members while their group rebalances, if it is shorter than "
        "group.consumer.heartbeat.interval.ms. For groups of more than 5,000 members the coordinator makes it so much "
        "longer that it receives 5,000 heartbeats a second.",
        at_least(1),
    )
    group_consumer_max_size: Key[int] = static(
        "group.consumer.max.size",
        INT,
        MEMBERS_MAX,
        "Members of one group of KIP-848, at most (Kafka: 2147483647).",
        at_least(1),
    )
    group_consumer_assignors: Key[tuple[str, ...]] = static(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "Assignors that members may request; a member that requests none gets the first one.",
        each_of("uniform", "range"),
    )
    group_consumer_migration_policy: Key[str] = static(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether groups with members change to KIP-848 (upgrade), back to the classic protocol (downgrade), both or "
        "neither (disabled); groups without members always do.",
        OneOf(("bidirectional", "upgrade", "downgrade", "disabled"), any_case=True),
    )
    group_consumer_assignment_interval_ms: Key[int] = dynamic(
        "group.consumer.assignment.interval.ms",
        INT,
        1_000,
        "Shortest time between two assignments of a group.",
        at_least(0),
    )
    group_consumer_min_assignment_interval_ms: Key[int] = static(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "Shortest assignment interval of a group (group.consumer.assignment.interval.ms).",
        at_least(0),
    )
    group_consumer_max_assignment_interval_ms: Key[int] = static(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "Longest assignment interval of a group (group.consumer.assignment.interval.ms).",
        at_least(0),
    )
    group_consumer_regex_refresh_interval_ms: Key[int] = static(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often the coordinator searches again for the topics that members' regular expressions match.",
        at_least(10_000),
    )


class PushGroupConfig(Config):
    """Configuration keys of groups of the push protocol, whose coordinator calls its consumers (decision 35).

    The keys of classic groups limit the length of a session.
    """

    sluicegate_group_push_ping_retries_max: Key[int] = static(
        "sluicegate.group.push.ping.retries.max",
        INT,
        1,
        "A consumer has failed if it leaves more pings than this unanswered, each for two thirds of its session.",
        at_least(0),
    )
    sluicegate_group_push_rebalance_retries_max: Key[int] = static(
        "sluicegate.group.push.rebalance.retries.max",
        INT,
        4,
        "How often a rebalance is retried if consumers do not stop or start in time. After that, these consumers have "
        "failed.",
        at_least(0),
    )
    sluicegate_group_push_rebalance_backoff_ms: Key[int] = static(
        "sluicegate.group.push.rebalance.backoff.ms",
        INT,
        2_000,
        "Wait before a rebalance of the push protocol is retried.",
        at_least(0),
    )
    sluicegate_group_push_offsets_commit_interval_ms: Key[int] = static(
        "sluicegate.group.push.offsets.commit.interval.ms",
        INT,
        5_000,
        "How often the coordinator commits the offsets that consumers report in their answers to pings. Offsets that "
        "they report when fetchers stop are committed at once.",
        at_least(0),
    )
    sluicegate_group_push_offsets_check_timeout_ms: Key[int] = static(
        "sluicegate.group.push.offsets.check.timeout.ms",
        INT,
        1_000,
        "How long the coordinator waits for the log end offset from a partition's leader before it commits an "
        "offset there, or starts a consumer at one. Without a response it does so unchecked.",
        at_least(1),
    )


class LagConfig(Config):
    """Configuration keys of the metrics about how far groups lag behind."""

    sluicegate_group_lag_groups_max: Key[int] = static(
        "sluicegate.group.lag.groups.max",
        INT,
        100,
        "Groups of this coordinator whose lag is a metric: those that it has known longest. 0 shows none.",
        at_least(0),
    )
    sluicegate_group_lag_partitions_max: Key[int] = static(
        "sluicegate.group.lag.partitions.max",
        INT,
        10_000,
        "Partitions of all groups with a lag metric together; a group that would exceed the limit is left out.",
        at_least(1),
    )
    sluicegate_group_lag_interval_ms: Key[int] = static(
        "sluicegate.group.lag.interval.ms",
        INT,
        10_000,
        "How often the coordinator asks the leaders of these groups' partitions for the log end offsets.",
        at_least(1_000),
    )


class GroupConfig(OffsetsConfig, ClassicGroupConfig, ConsumerGroupConfig, PushGroupConfig, LagConfig):
    """All configuration keys of group coordinators."""

    sluicegate_group_coordinator_queue_max: Key[int] = static(
        "sluicegate.group.coordinator.queue.max",
        INT,
        50_000,
        "Requests that may wait for the coordinator of one partition of __consumer_offsets.",
        at_least(1),
    )
    sluicegate_group_coordinator_groups_max: Key[int] = static(
        "sluicegate.group.coordinator.groups.max",
        INT,
        10_000,
        "Groups of one partition of __consumer_offsets, including those that only keep offsets. New groups beyond the "
        "limit are refused (GROUP_MAX_SIZE_REACHED); existing ones stay. A small group takes some 2 KiB.",
        at_least(1),
    )
    sluicegate_groups_members_bytes_max: Key[int] = static(
        "sluicegate.groups.members.bytes.max",
        LONG,
        134_217_728,
        "Bytes of what the members of all groups that a broker coordinates have told it: metadata, topics and "
        "assignments. A member that needs more is refused (GROUP_MAX_SIZE_REACHED); existing ones stay.",
        at_least(1),
    )


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """The changes of protocol that group.consumer.migration.policy allows for groups that have members."""

    upgrade: bool
    downgrade: bool

    @classmethod
    def of(cls, config: ConsumerGroupConfig) -> "MigrationPolicy":
        policy = config.group_consumer_migration_policy.lower()
        return cls(policy in ("upgrade", "bidirectional"), policy in ("downgrade", "bidirectional"))


_NOT_ABOVE = (
    (GroupConfig.group_min_session_timeout_ms, GroupConfig.group_max_session_timeout_ms),
    (GroupConfig.group_consumer_min_heartbeat_interval_ms, GroupConfig.group_consumer_max_heartbeat_interval_ms),
    (GroupConfig.group_consumer_min_heartbeat_interval_ms, GroupConfig.group_consumer_heartbeat_interval_ms),
    (GroupConfig.group_consumer_heartbeat_interval_ms, GroupConfig.group_consumer_max_heartbeat_interval_ms),
    (GroupConfig.group_consumer_min_session_timeout_ms, GroupConfig.group_consumer_max_session_timeout_ms),
    (GroupConfig.group_consumer_min_session_timeout_ms, GroupConfig.group_consumer_session_timeout_ms),
    (GroupConfig.group_consumer_session_timeout_ms, GroupConfig.group_consumer_max_session_timeout_ms),
    (GroupConfig.group_consumer_min_assignment_interval_ms, GroupConfig.group_consumer_max_assignment_interval_ms),
    (GroupConfig.group_consumer_min_assignment_interval_ms, GroupConfig.group_consumer_assignment_interval_ms),
    (GroupConfig.group_consumer_assignment_interval_ms, GroupConfig.group_consumer_max_assignment_interval_ms),
)
"""Pairs of keys of which the first must not be larger than the second."""


def group_problem(config: GroupConfig) -> str | None:
    """Return the first fault of all group keys together, as Apache Kafka checks them at its start.

    None for valid keys.
    """
    for low, high in _NOT_ABOVE:
        if getattr(config, low.attribute) > getattr(config, high.attribute):
            shown = f"({getattr(config, low.attribute)} and {getattr(config, high.attribute)})"
            return f"{low.name} must be less than or equal to {high.name} {shown}"
    if CLASSIC not in config.group_coordinator_rebalance_protocols:
        return f"{GroupConfig.group_coordinator_rebalance_protocols.name} must have {CLASSIC}: it is always served"
    heartbeat, session = config.group_consumer_heartbeat_interval_ms, config.group_consumer_session_timeout_ms
    if heartbeat >= session:
        return (
            f"{GroupConfig.group_consumer_heartbeat_interval_ms.name} must be less than"
            f" {GroupConfig.group_consumer_session_timeout_ms.name} ({heartbeat} and {session})"
        )
    return None


def assignment_interval_ms(config: ConsumerGroupConfig) -> int:
    """Return the effective interval between assignments, in milliseconds.

    A dynamic value beyond the static bounds counts as the bound, as in Apache Kafka.
    """
    longest = min(config.group_consumer_assignment_interval_ms, config.group_consumer_max_assignment_interval_ms)
    return max(longest, config.group_consumer_min_assignment_interval_ms)


class ResourcesConfig(Config):
    """Configuration keys that limit the configurations of single groups, which the controller keeps in memory."""

    sluicegate_config_resources_max: Key[int] = static(
        "sluicegate.config.resources.max",
        Type.INT,
        10_000,
        "Groups that may have their own configuration; more are refused (POLICY_VIOLATION). The limit also "
        "applies to client metrics subscriptions; their maximum is 100.",
        at_least(0),
    )
