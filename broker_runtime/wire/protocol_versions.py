"""The protocol versions of brokers: the client APIs that each version has added, deprecated and removed. Pure.

This table is the only source, and nothing is ever deleted from it: a further step removes what is no longer served. A
released step never changes. BrokerMetadata returns the lowest and the highest version that a broker serves. A client
that knows this table derives from them which requests it may send, without another request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from broker_runtime.wire import versions as api
from kafka_bytes import own_keys

Versions = Mapping[int, tuple[int, int]]
"""The first and the last version of each API, by API key."""

_NONE: Versions = MappingProxyType({})


class Step(NamedTuple):
    """One protocol version, and its differences from the previous version."""

    number: int
    why: str
    added: Versions
    deprecated: Versions = _NONE
    removed: Versions = _NONE


@dataclass(frozen=True, slots=True)
class Life:
    """The life of one version of an API: the protocol versions that have added, deprecated and removed it."""

    added: int
    deprecated: int | None = None
    removed: int | None = None


HISTORY: tuple[Step, ...] = (
    Step(
        1,
        "The requests that brokers served when the numbering of versions began.",
        {
            api.PRODUCE: (3, 13),
            api.FETCH: (4, 18),
            api.LIST_OFFSETS: (1, 11),
            api.METADATA: (0, 13),
            api.OFFSET_COMMIT: (2, 10),
            api.OFFSET_FETCH: (1, 10),
            api.FIND_COORDINATOR: (0, 6),
            api.JOIN_GROUP: (0, 9),
            api.HEARTBEAT: (0, 4),
            api.LEAVE_GROUP: (0, 5),
            api.SYNC_GROUP: (0, 5),
            api.DESCRIBE_GROUPS: (0, 6),
            api.LIST_GROUPS: (0, 5),
            api.API_VERSIONS: (0, 4),
            api.CREATE_TOPICS: (2, 7),
            api.DELETE_TOPICS: (1, 6),
            api.DELETE_RECORDS: (0, 2),
            api.INIT_PRODUCER_ID: (0, 4),
            api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
            api.DESCRIBE_CONFIGS: (1, 4),
            api.ALTER_CONFIGS: (0, 2),
            api.ALTER_REPLICA_LOG_DIRS: (1, 2),
            api.DESCRIBE_LOG_DIRS: (1, 5),
            api.CREATE_PARTITIONS: (0, 3),
            api.DELETE_GROUPS: (0, 2),
            api.ELECT_LEADERS: (0, 2),
            api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
            api.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
            api.LIST_PARTITION_REASSIGNMENTS: (0, 0),
            api.OFFSET_DELETE: (0, 0),
            api.DESCRIBE_CLIENT_QUOTAS: (0, 1),
            api.ALTER_CLIENT_QUOTAS: (0, 1),
            api.DESCRIBE_QUORUM: (0, 2),
            api.UPDATE_FEATURES: (0, 2),
            api.DESCRIBE_CLUSTER: (0, 2),
            api.DESCRIBE_PRODUCERS: (0, 0),
            api.UNREGISTER_BROKER: (0, 0),
            api.CONSUMER_GROUP_HEARTBEAT: (0, 1),
            api.CONSUMER_GROUP_DESCRIBE: (0, 1),
            api.LIST_CONFIG_RESOURCES: (0, 1),
            api.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
        },
    ),
    Step(2, "Brokers describe themselves (BrokerMetadata).", {own_keys.BROKER_METADATA: (0, 0)}),
    Step(
        3,
        "Brokers call consumers: the push protocol, whose messages have no versions.",
        {
            own_keys.CLUSTER_METADATA: (0, 0),
            own_keys.REGISTER_CONSUMER: (0, 0),
            own_keys.PING: (0, 0),
            own_keys.STOP_FETCHER: (0, 0),
            own_keys.START_FETCHER: (0, 0),
        },
    ),
    Step(
        4,
        "Requests for ACLs get SECURITY_DISABLED, and requests for clients' metrics the answers of a broker without a "
        "receiver.",
        {
            api.DESCRIBE_ACLS: (1, 3),
            api.CREATE_ACLS: (1, 3),
            api.DELETE_ACLS: (1, 3),
            api.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
            api.PUSH_TELEMETRY: (0, 0),
        },
    ),
    Step(
        5,
        "Brokers report which offsets of their logs are damaged, and repair the logs of other brokers.",
        {own_keys.REPLICA_RANGE: (0, 0), own_keys.DESCRIBE_LOG_DAMAGE: (0, 0), own_keys.ACCEPT_LOG_LOSS: (0, 0)},
    ),
    Step(
        6,
        "Clients authenticate by SASL.",
        {
            api.SASL_HANDSHAKE: (0, 1),
            api.SASL_AUTHENTICATE: (0, 2),
            api.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
            api.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
        },
    ),
    Step(
        7,
        "Producers write in transactions.",
        {
            api.INIT_PRODUCER_ID: (5, 5),
            api.ADD_PARTITIONS_TO_TXN: (0, 5),
            api.ADD_OFFSETS_TO_TXN: (0, 4),
            api.END_TXN: (0, 5),
            api.WRITE_TXN_MARKERS: (1, 2),
            api.TXN_OFFSET_COMMIT: (0, 5),
            api.DESCRIBE_TRANSACTIONS: (0, 0),
            api.LIST_TRANSACTIONS: (0, 2),
        },
    ),
)

PROTOCOL_VERSION_MAX = HISTORY[-1].number
PROTOCOL_VERSION_MIN = max((step.number for step in HISTORY if step.removed), default=HISTORY[0].number)
"""The oldest protocol version whose clients are served completely.

Clients of older versions may send requests that were removed since.
"""


def lives(history: Sequence[Step] = HISTORY) -> Mapping[tuple[int, int], Life]:
    """Return the lives of API versions by API key and version.

    Raises ValueError if a step contradicts the previous steps.
    """
    found: dict[tuple[int, int], Life] = {}
    before = 0
    for step in history:
        if step.number != before + 1:
            raise ValueError(f"protocol version {step.number} follows {before}")
        before = step.number
        for one in _each(step.added):
            if one in found:
                raise ValueError(f"protocol version {step.number} adds {one} again")
            found[one] = Life(step.number)
        for one in _each(step.deprecated):
            if one not in found or found[one] != Life(found[one].added):
                raise ValueError(
                    f"protocol version {step.number} deprecates {one}, which is not served or already deprecated"
                )
            found[one] = replace(found[one], deprecated=step.number)
        for one in _each(step.removed):
            if one not in found or found[one].removed is not None:
                raise ValueError(f"protocol version {step.number} removes {one}, which is not served")
            found[one] = replace(found[one], removed=step.number)
    return found


def _each(versions: Versions) -> list[tuple[int, int]]:
    return [(key, version) for key, (low, high) in versions.items() for version in range(low, high + 1)]


class Levels(NamedTuple):
    """The lowest and the highest supported level."""

    lowest: int
    highest: int


FEATURES: Mapping[str, Levels] = {
    "eligible.leader.replicas.version": Levels(0, 1),
    "group.version": Levels(0, 1),
    "metadata.version": Levels(7, 30),
    "transaction.version": Levels(0, 2),
}
"""The features of Apache Kafka that a broker has (KIP-584), with the levels of Apache Kafka 4.3.

The levels are fixed: each feature is finalized at the highest supported level. Clients derive Kafka's version from
`metadata.version`, as Kafka 4 has no other place for it: 7 is 3.3-IV3, 30 is 4.3-IV0. Features that are left out are
not served: share groups, Streams groups, and a quorum of controllers (`kraft.version`).
"""


def transaction_version() -> int:
    """Return the level of transaction.version (KIP-890), by which coordinators write records and abort transactions."""
    levels = FEATURES.get("transaction.version")
    return 0 if levels is None else levels.highest
