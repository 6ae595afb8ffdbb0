"""The size of a simulated cluster, and the duration of its faults."""

import random
from dataclasses import dataclass, replace

NEVER = 2**63 - 1
"""Kafka's default of log.flush.interval.messages."""

LOSSES = ("power_loss", "disk_fails", "kill", "controlled_restart", "isolate", "reassign")
"""The faults that lose acknowledged records if a rule is missing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a cluster. One controller keeps metadata in files, several in the API server."""

    brokers: int = 3
    controllers: int = 1
    combined: bool = False
    """Whether the first brokers are the controllers."""
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    faults: tuple[str, ...] = ()
    """Kinds of faults, by their names in schedule.py; if empty, the seed chooses."""
    faults_s: float = 12.0
    fault_interval_s: float = 1.5
    """Mean time between two faults."""
    delay_factor: float = 1.0
    """Factor of the network's usual 0.2 to 2 ms."""
    pause_max_s: float = 0.4
    """Longest pause of a producer between two batches."""
    segment_bytes: int = 1 << 20
    pipelined: bool = False
    """Whether each partition has one more idempotent producer, with several batches in flight."""
    flush_messages: int = NEVER
    """With 1 any number of brokers may lose power at once."""
    committers: int = 0
    """Number of clients that commit offsets, each to a separate group."""
    groups: tuple[str, ...] = ()
    """Kinds of groups that share the partitions of a separate topic: those of group.KINDS."""
    writers: int = 0
    """Number of transactional ids that write in transactions; with any, their records are also transformed."""
    transaction_version: int = 1
    """Version of the transaction protocol that clients speak."""
    secured: bool = False
    """Whether producers and consumers authenticate by SCRAM, in sessions that end."""
    mixed: bool = False
    """Whether the nodes begin with the previous release, and change to this one and back."""
    operator_looks_s: float = 0.0
    """Mean time between two checks of pods and controllers by the operator; 0: no operator."""
    operator_errs: float = 0.0
    """Share of the operator's checks in which it ends the active controller's Lease.

    It ends the Lease whether the controller is gone or not.
    """


HARSH = Shape(partitions=2, faults_s=20.0, fault_interval_s=0.5, pause_max_s=0.1, operator_looks_s=0.3)
PIPELINED = replace(
    HARSH,
    pipelined=True,
    faults=("kill_all_brokers", "kill", "reset", "pause", "cut_two", "elect_preferred"),
    faults_s=10.0,
    fault_interval_s=1.0,
    segment_bytes=1 << 30,
)
"""Several batches of a producer are in flight.

As in Kafka, a snapshot of producers holds the last batch of each. After a broker has started from a snapshot, a
producer that sends an earlier batch again is refused for good. Therefore segments do not end here, and no broker is
stopped in good order.
"""
_OF_COORDINATORS = (
    "kill",
    "power_loss",
    "cut_two",
    "isolate",
    "pause",
    "reset",
    "controlled_restart",
    "elect_preferred",
)
GROUPS = replace(
    HARSH,
    partitions=1,
    committers=2,
    groups=("classic", "modern", "mixed"),
    faults=(*_OF_COORDINATORS, "grow"),
    faults_s=15.0,
    fault_interval_s=1.0,
    delay_factor=5.0,
    operator_looks_s=0.0,
)
"""Coordinators of groups are killed, cut off and left without power."""
PUSH = replace(
    GROUPS,
    committers=0,
    groups=("push", "moving"),
    faults=(
        *GROUPS.faults,
        "member_pauses",
        "member_cut_off",
        "in_rebalance",
        "coordinator_falls_silent",
        "temporary_topic",
        "slow",
    ),
)
"""Groups whose coordinator calls its consumers, which fail too."""
TRANSACTIONS = replace(
    HARSH,
    writers=2,
    faults=(
        "kill",
        "power_loss",
        "cut_two",
        "isolate",
        "pause",
        "reset",
        "slow",
        "controlled_restart",
        "elect_preferred",
    ),
    faults_s=15.0,
    fault_interval_s=1.0,
    operator_looks_s=0.0,
)
"""Coordinators of transactions, leaders and clients are killed, cut off, paused and left without power."""
TRANSACTIONS_V2 = replace(TRANSACTIONS, transaction_version=2)
SECURED = replace(
    HARSH,
    secured=True,
    faults=(
        "password",
        "kill",
        "kill_controller",
        "power_loss_of_controller",
        "pause",
        "cut_off_from_controllers",
        "slow",
        "jump",
        "reset",
        "controlled_restart",
    ),
    faults_s=12.0,
)
"""Passwords change while controllers and brokers fail, and sessions end."""
ROTTEN = replace(
    HARSH,
    segment_bytes=4000,
    faults=("old_damage", "rot", "kill", "cut_two", "pause", "controlled_restart", "elect_preferred", "delete_records"),
    faults_s=12.0,
    fault_interval_s=1.0,
)
"""Old segments are damaged, on disks of stopped and of running brokers, and other brokers mend them."""
MIXED = replace(
    GROUPS,
    mixed=True,
    groups=("classic", "modern", "push"),
    faults=("change_release", "kill_controller", *_OF_COORDINATORS),
)
"""Nodes change between the previous release and this one, and fail meanwhile."""
ROLLED = replace(
    MIXED, committers=0, faults=("roll",), faults_s=1200.0, fault_interval_s=5.0, pause_max_s=0.2, delay_factor=1.0
)
"""All nodes change from release to release, one by one, again and again, and nothing else fails.

A producer that pauses longer sends its next batch to the leader that it knows, perhaps a broker that has just started.
Such a broker answers after its registration, as Kafka does: half a second to a second later.
"""
DEPOSED = replace(
    HARSH,
    controllers=3,
    faults=("refuse_controller", "pause", "kill_controller", "new_topic", "topic_made_again", "reassign"),
    delay_factor=5.0,
    operator_errs=0.3,
)
"""Healthy controllers are reported as gone, by the operator and by their hosts' refusals."""


def shape_of(seed: int) -> Shape:
    rng = random.Random(f"{seed}/shape")
    brokers = rng.choice((3, 3, 3, 4))
    return Shape(
        brokers=brokers,
        controllers=rng.choice((1, 1, 2, 3)),
        partitions=rng.choice((1, 2, 3)),
        faults_s=rng.uniform(6.0, 16.0),
        fault_interval_s=rng.choice((0.3, 0.8, 1.5, 1.5)),
        delay_factor=rng.choice((1.0, 1.0, 1.0, 10.0, 40.0)),
        pause_max_s=rng.choice((0.02, 0.4, 0.4, 1.0)),
        flush_messages=rng.choice((NEVER, NEVER, NEVER, NEVER, 10, 1)),
        combined=rng.random() < 0.2,
        faults=rng.choice(((), (), (), LOSSES)),
        operator_looks_s=rng.choice((0.0, 0.1, 0.5, 1.0)),
    )
