"""A fake broker registers, beats, alters partitions, stops and is unregistered, with Kafka's controller and with ours.

The same life is played on both controllers over their own listeners. Every answer is the same, except for epochs, which
are offsets in the metadata.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tests.integration.differential.play import Node, Play
from tests.integration.differential.scripts.topics import NODE, STRANGER, TIMEOUT_MS, metadata, new
from tests.integration.differential.settling import settle
from tests.support.processes.apache_kafka import CONTROLLER_LISTENER, ApacheKafka
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import Plain, WireClient

pytestmark = pytest.mark.full

GUEST, NOBODY = 5, 9
FIRST, SECOND = UUID(int=10**20 + 1), UUID(int=10**20 + 2)
CAUGHT_UP = 10**6
UNKNOWN_EPOCH = -1
FEATURES = {
    "metadata.version": (1, 40),
    "kraft.version": (0, 2),
    "group.version": (0, 2),
    "transaction.version": (0, 3),
    "eligible.leader.replicas.version": (0, 2),
    "share.version": (0, 2),
    "streams.version": (0, 2),
}
"""All features that a new cluster of Kafka 4.3.0 has finalized."""


@dataclass
class Life:
    """The fake broker's part; `told` has the answers, step by step."""

    node: Node
    controller: WireClient
    on: Play
    told: dict[str, Plain] = field(default_factory=dict)
    epoch: int = -1

    def register(self, step: str, incarnation: UUID, cluster_id: str) -> int:
        answer = self.controller.ask(
            "broker_registration",
            4,
            broker_id=GUEST,
            cluster_id=cluster_id,
            incarnation_id=incarnation,
            listeners=[{"name": "PLAINTEXT", "host": "localhost", "port": 9, "security_protocol": 0}],
            features=[
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in FEATURES.items()
            ],
            rack=None,
            is_migrating_zk_broker=False,
            log_dirs=[UUID(int=10**30)],
            previous_broker_epoch=-1,
        )
        epoch: int = answer.pop("broker_epoch")
        self.told[step] = [answer, epoch > 0]
        return epoch

    def beat(
        self,
        step: str,
        offset: int = CAUGHT_UP,
        *,
        fence: bool = False,
        stop: bool = False,
        broker: int = GUEST,
        epoch: int | None = None,
    ) -> None:
        self.told[step] = self.controller.ask(
            "broker_heartbeat",
            1,
            broker_id=broker,
            broker_epoch=self.epoch if epoch is None else epoch,
            current_metadata_offset=offset,
            want_fence=fence,
            want_shut_down=stop,
            offline_log_dirs=[],
        )

    def alter(
        self,
        step: str,
        at: tuple[int, int, int],
        isr: Sequence[tuple[int, int]],
        *,
        topic_id: UUID,
        epoch: int | None = None,
    ) -> None:
        """Alter a partition. `at` is the partition, the leader epoch and the partition epoch."""
        part = {
            "partition_index": at[0],
            "leader_epoch": at[1],
            "new_isr_with_epochs": [{"broker_id": broker, "broker_epoch": known} for broker, known in isr],
            "leader_recovery_state": 0,
            "partition_epoch": at[2],
        }
        answer = self.controller.ask(
            "alter_partition",
            3,
            broker_id=GUEST,
            broker_epoch=self.epoch if epoch is None else epoch,
            topics=[{"topic_id": topic_id, "partitions": [part]}],
        )
        for topic in answer["topics"]:
            topic.pop("topic_id")
        self.told[step] = answer

    def see(self, step: str) -> None:
        """Record the partitions that a client sees."""
        settle(self.on)
        topic = metadata(self.on, step, ["shared"])["topics"][0]
        parts = sorted(topic["partitions"], key=lambda part: int(part["partition_index"]))
        self.told[step] = [[part[key] for key in ("leader_id", "leader_epoch", "isr_nodes")] for part in parts]


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[ApacheKafka, BrokerProcess]]:
    ours = BrokerProcess(listeners=[CONTROLLER_LISTENER], properties={"controller.listener.names": CONTROLLER_LISTENER})
    with ApacheKafka() as kafka, ours:
        yield kafka, ours


def live(node: Node) -> dict[str, Plain]:
    on = Play(node)
    with WireClient((node.host, node.port(CONTROLLER_LISTENER))) as controller:
        life = Life(node, controller, on)
        _arrive(life)
        topic_id = _share(life)
        _alter(life, topic_id)
        _leave(life, topic_id)
    on.close()
    return life.told


def _arrive(life: Life) -> None:
    cluster_id = life.on.quietly("describe_cluster", 0, include_cluster_authorized_operations=False)["cluster_id"]
    life.register("a foreign cluster", FIRST, "another")
    before = life.register("registered", FIRST, cluster_id)
    life.told["the same again"] = life.register("registered again", FIRST, cluster_id) == before
    life.epoch = life.register("another before any heartbeat", SECOND, cluster_id)
    life.told["a newer epoch"] = life.epoch > before
    life.beat("with the old epoch", epoch=before)
    life.beat("of nobody", broker=NOBODY)
    life.beat("behind", 0)
    life.beat("wants to be fenced", fence=True)
    life.register("another after a heartbeat", FIRST, cluster_id)
    life.beat("caught up")


def _share(life: Life) -> UUID:
    topic = new("shared", -1, -1, assigned=[(0, [GUEST, NODE]), (1, [NODE, GUEST])])
    made = life.on.quietly("create_topics", 7, topics=[topic], timeout=TIMEOUT_MS, validate_only=False)["topics"][0]
    life.told["a topic"] = made["error_code"]
    life.see("a topic seen")
    return UUID(made["topic_id"])


def _alter(life: Life, topic_id: UUID) -> None:
    guest, node = (GUEST, life.epoch), (NODE, UNKNOWN_EPOCH)
    life.alter("a stale broker", (0, 0, 0), [guest], topic_id=topic_id, epoch=1)
    ways = {
        "a strange topic": ((0, 0, 0), [guest], STRANGER),
        "a strange partition": ((7, 0, 0), [guest], topic_id),
        "a leader epoch to come": ((0, 3, 0), [guest], topic_id),
        "a partition epoch to come": ((0, 0, 3), [guest], topic_id),
        "a leader epoch gone by": ((0, -1, 0), [guest], topic_id),
        "a partition epoch gone by": ((0, 0, -1), [guest], topic_id),
        "no leader": ((1, 0, 0), [guest], topic_id),
        "nobody in sync": ((0, 0, 0), [], topic_id),
        "no replica in sync": ((0, 0, 0), [guest, (NOBODY, UNKNOWN_EPOCH)], topic_id),
        "another incarnation in sync": ((0, 0, 0), [(GUEST, life.epoch + 1), node], topic_id),
        "no change": ((0, 0, 0), [guest, node], topic_id),
        "fewer": ((0, 0, 0), [guest], topic_id),
        "more, too late": ((0, 0, 0), [guest, node], topic_id),
        "more": ((0, 0, 1), [guest, node], topic_id),
    }
    for step, (at, isr, topic) in ways.items():
        life.alter(step, at, isr, topic_id=topic)
        life.beat(f"after {step}")


def _leave(life: Life, topic_id: UUID) -> None:
    life.beat("stopping", stop=True)
    life.alter("stopping and altering", (0, 0, 2), [(GUEST, life.epoch)], topic_id=topic_id)
    life.see("leaders moved")

    def released() -> bool:
        life.beat("released", stop=True)
        answer = life.told["released"]
        return bool(answer["should_shut_down"])

    life.on.until(released)
    for step in ("unregistered", "unregistered again"):
        life.told[step] = life.on.quietly("unregister_broker", 0, broker_id=GUEST)
    life.beat("not registered")
    life.see("without it")


def test_one_life_on_both_controllers(pair: tuple[ApacheKafka, BrokerProcess]) -> None:
    with ThreadPoolExecutor(2) as threads:
        kafka, ours = threads.map(live, pair)
    assert ours == kafka
    assert len(kafka) == 51
