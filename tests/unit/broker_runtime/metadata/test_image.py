"""The image: look-ups, changes by a record, and that a replay of any history gives the same state."""

import dataclasses
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.controller import configs, producer_ids, registration, topics
from broker_runtime.controller.clients import client_quotas
from broker_runtime.controller.clients.client_quotas import QuotaChange
from broker_runtime.controller.configs import Change
from broker_runtime.controller.registration import Heartbeat, Registration
from broker_runtime.controller.sessions import Sessions
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.areas.brokers import FenceBroker, RegisterBroker, StopBroker, UnfenceBroker
from broker_runtime.metadata.areas.cluster import ClusterRecord
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.producers import ProducerIdsRecord
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.metadata.areas.topics import Partition, PartitionRecord, RemoveTopic, Topic, TopicRecord
from broker_runtime.metadata.changes import Changes, Removals
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import CLUSTER_ID, Metadata, endpoints


def test_brokers_topics_and_configurations_are_found() -> None:
    metadata = Metadata()
    metadata.broker(1, "INTERNAL", "EXTERNAL", rack="a")
    topic_id = metadata.topic("orders", [1], [1])
    metadata.write(ConfigRecord(4, "", "max.connections", "10"), ConfigRecord(4, "1", "max.connections", "5"))
    metadata.write(ConfigRecord(2, "orders", "retention.ms", "7"))
    image = metadata.image
    assert image.brokers[1].rack == "a"
    assert image.brokers.is_active(1)
    external = image.brokers[1].endpoint("EXTERNAL")
    assert external is not None
    assert external.port == 9093
    assert image.brokers[1].endpoint("NOPE") is None
    assert image.topics["orders"].partitions[1].leader == 1
    assert image.topics.by_id(topic_id) is image.topics["orders"]
    assert image.configs.of_broker(None) == {"max.connections": "10"}
    assert image.configs.of_broker(1) == {"max.connections": "5"}
    assert image.configs.of_topic("orders") == {"retention.ms": "7"}
    metadata.write(RemoveTopic(topic_id))
    assert image.configs.of_topic("orders") == {}
    assert image.topics.by_id(topic_id) is None


def test_ip_rates_are_found_for_exactly_the_entity_that_was_set() -> None:
    metadata = Metadata()
    metadata.write(ClientQuotaRecord((("ip", None),), "connection_creation_rate", 20.0))
    metadata.write(ClientQuotaRecord((("ip", "10.0.0.1"),), "connection_creation_rate", 5.0))
    assert metadata.image.quotas.ip_rate(None) == 20.0
    assert metadata.image.quotas.ip_rate("10.0.0.1") == 5.0
    assert metadata.image.quotas.ip_rate("10.0.0.2") is None
    metadata.write(ClientQuotaRecord((("ip", "10.0.0.1"),), "connection_creation_rate", None))
    assert metadata.image.quotas.ip_rate("10.0.0.1") is None
    assert list(metadata.image.quotas) == [(("ip", None),)]


def test_apply_returns_the_changes_of_a_record() -> None:
    metadata = Metadata()
    metadata.broker(1)
    topic_id = metadata.topic("orders", [1])

    def apply(record: MetadataRecord) -> Changes:
        return metadata.image.apply(record, metadata.image.next_offset)

    end = metadata.image.next_offset
    assert apply(ConfigRecord(4, "", "max.connections", "1")).broker_configs == {None}
    assert apply(ConfigRecord(4, "1", "max.connections", "1")).broker_configs == {1}
    assert apply(ConfigRecord(2, "orders", "retention.ms", "1")).topic_configs == {"orders"}
    assert apply(ClientQuotaRecord((("ip", None),), "connection_creation_rate", 1.0)).ip_quotas == {None}
    assert apply(ClientQuotaRecord((("user", "u"),), "producer_byte_rate", 1.0)).client_quotas == {"producer_byte_rate"}
    assert apply(PartitionRecord(topic_id, 1, (1,), (1,), 1, 0, 0)).partitions == {(topic_id, 1)}
    moved = apply(PartitionRecord(topic_id, 1, (2,), (2,), 2, 0, 0))
    assert (moved.partitions, moved.removals.replicas) == ({(topic_id, 1)}, {(topic_id, 1, 1)})
    removed = apply(RemoveTopic(topic_id))
    assert (removed.topics_removed, removed.removals.topics) == ({"orders"}, {topic_id})
    assert metadata.image.next_offset == end + 8


def test_changes_take_over_every_kind_of_later_ones() -> None:
    earlier, later = (
        Changes(
            brokers={n},
            partitions={(UUID(int=n), 0)},
            topics_removed={f"t{n}"},
            removals=Removals({UUID(int=n)}, {(UUID(int=n), 0, 1)}),
            topic_configs={f"t{n}"},
            broker_configs={n},
            ip_quotas={f"10.0.0.{n}"},
            client_quotas={f"key{n}"},
            connection_groups={("g", f"10.0.0.{n}")},
        )
        for n in (1, 2)
    )
    earlier.update(later)
    for kind in dataclasses.fields(Changes):
        if kind.name != "removals":
            assert len(getattr(earlier, kind.name)) == 2, kind.name
            assert Changes(**{kind.name: getattr(later, kind.name)}), kind.name
    assert (len(earlier.removals.topics), len(earlier.removals.replicas)) == (2, 2)
    assert not Changes()


@pytest.mark.parametrize(
    "record",
    [
        FenceBroker(9, 0),
        UnfenceBroker(1, 99),
        PartitionRecord(UUID(int=77), 0, (1,), (1,), 1, 0, 0),
        TopicRecord("orders", UUID(int=77)),
        RemoveTopic(UUID(int=77)),
        ConfigRecord(4, "x", "y", "z"),
        ProducerIdsRecord(1, 1, 0),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_does_not_fit_is_refused(record: FenceBroker) -> None:
    metadata = Metadata()
    metadata.broker(1)
    metadata.topic("orders", [1])
    with pytest.raises(ValueError, match=r"\w+"):
        metadata.image.apply(record, 50)


BROKER_IDS = st.integers(0, 3)
TOPIC_NAMES = st.sampled_from(["a", "b", "a.b", "a_b"])
RATES = st.sampled_from([None, 1.0, 20.0, 0.0])
STEPS = st.one_of(
    st.tuples(st.just("register"), BROKER_IDS, st.integers(1, 3)),
    st.tuples(st.just("heartbeat"), BROKER_IDS, st.booleans(), st.booleans()),
    st.tuples(st.just("expire"), BROKER_IDS),
    st.tuples(st.just("create"), TOPIC_NAMES, st.integers(1, 3)),
    st.tuples(st.just("grow"), TOPIC_NAMES, st.integers(1, 5)),
    st.tuples(st.just("delete"), TOPIC_NAMES),
    st.tuples(st.just("config"), st.sampled_from(["", "1", "2"]), st.sampled_from(["5", "9", None])),
    st.tuples(st.just("topic config"), TOPIC_NAMES, st.sampled_from(["5", "9", None])),
    st.tuples(st.just("quota"), st.sampled_from([None, "10.0.0.1", "10.0.0.2"]), RATES),
    st.tuples(st.just("producer ids"), BROKER_IDS),
)


class History:
    """Plays steps as the controller decides them; refusals change nothing."""

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.sessions = Sessions(9.0)
        self.now_s = 0.0
        self.handed_out: set[int] = set()

    def play(self, step: tuple) -> None:  # type: ignore[type-arg]
        self.now_s += 1.0
        before = len(self.metadata.journal)
        try:
            getattr(self, "_" + step[0].replace(" ", "_"))(*step[1:])
        except KafkaError:
            assert len(self.metadata.journal) == before

    def _epoch(self, broker_id: int) -> int:
        known = self.metadata.image.brokers.get(broker_id)
        return -1 if known is None else known.epoch

    def _register(self, broker_id: int, incarnation: int) -> None:
        wanted = Registration(broker_id, CLUSTER_ID, UUID(int=incarnation), endpoints(), None)
        decided = at_once(registration.register(wanted, self.metadata.image, self.sessions, self.now_s))
        epoch = self.metadata.commit(decided)
        assert self.metadata.image.brokers[broker_id].epoch == epoch

    def _heartbeat(self, broker_id: int, want_fence: bool, want_shut_down: bool) -> None:
        beat = Heartbeat(broker_id, self._epoch(broker_id), self.metadata.image.offset, want_fence, want_shut_down)
        self.sessions.touch(broker_id, beat.epoch, self.now_s)
        self.metadata.commit(at_once(registration.heartbeat(beat, self.metadata.image, self.sessions, self.now_s)))

    def _expire(self, broker_id: int) -> None:
        if self.metadata.image.brokers.is_active(broker_id):
            self.metadata.write(
                *at_once(registration.fence(self.metadata.image.brokers[broker_id], self.metadata.image))
            )

    def _create(self, name: str, partitions: int) -> None:
        wanted = topics.NewTopic(name, partitions, 1, (), [("retention.ms", "7")])
        made = UUID(int=10_000 + len(self.metadata.journal))
        defaults = topics.TopicDefaults(1, 1)
        names = topics.TakenNames(self.metadata.image)
        self.metadata.commit(at_once(topics.create_topic(wanted, self.metadata.image, defaults, lambda: made, names)))

    def _grow(self, name: str, count: int) -> None:
        self.metadata.write(*at_once(topics.grow_topic(name, count, None, self.metadata.image)))

    def _delete(self, name: str) -> None:
        self.metadata.commit(topics.delete_topic(name, None, self.metadata.image))

    def _config(self, name: str, value: str | None) -> None:
        change = Change("max.connections", 1 if value is None else 0, value)
        self.metadata.write(*configs.alter_incrementally((4, name), [change], self.metadata.image))

    def _topic_config(self, name: str, value: str | None) -> None:
        change = Change("retention.ms", 1 if value is None else 0, value)
        self.metadata.write(*configs.alter_incrementally((2, name), [change], self.metadata.image))

    def _quota(self, ip: str | None, rate: float | None) -> None:
        change = QuotaChange("connection_creation_rate", rate)
        self.metadata.write(*client_quotas.alter_quotas([("ip", ip)], [change], self.metadata.image, ()))

    def _producer_ids(self, broker_id: int) -> None:
        decided = producer_ids.allocate(broker_id, self._epoch(broker_id), self.metadata.image)
        block = self.metadata.commit(decided)
        ids = set(range(block.start, block.start + block.size))
        assert not ids & self.handed_out
        self.handed_out |= ids


@given(st.lists(STEPS, max_size=40))
def test_any_history_replays_to_the_same_metadata(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    history = History()
    for step in steps:
        history.play(step)
    image = history.metadata.image
    assert history.metadata.replayed() == image
    for topic in image.topics.values():
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        for part in topic.partitions.values():
            live = any(image.brokers.is_active(replica) for replica in part.isr)
            assert image.brokers.is_active(part.leader) if live else part.leader == -1


def test_a_record_out_of_order_or_with_a_wrong_offset_is_not_applied() -> None:
    metadata = Metadata()
    metadata.broker(1)
    image, before = metadata.image, metadata.image.copy()
    epoch, end = image.brokers[1].epoch, image.next_offset
    for record, offset, problem in (
        (ClusterRecord("c"), end + 1, f"must be at offset {end}, not"),
        (RegisterBroker(2, UUID(int=2), end + 1, endpoints()), end, f"record for offset {end + 1}"),
        (StopBroker(1, epoch, end - 1), end, f"record for offset {end - 1}"),
    ):
        with pytest.raises(ValueError, match=problem):
            image.apply(record, offset)
    assert image == before


def test_a_copy_shares_what_no_record_changes_and_neither_image_sees_the_changes_of_the_other() -> None:
    """A broker copies its image for each change of two records or more: that must not copy all topics."""
    metadata = Metadata()
    metadata.broker(1)
    metadata.topic("orders", [1], [1])
    metadata.topic("other", [1])
    image = metadata.image
    copy = image.copy()
    assert all(copy.topics[name] is image.topics[name] for name in ("orders", "other"))
    orders, before = image.topics["orders"], dict(image.topics["orders"].partitions)
    for changed, same in ((image, copy), (copy, image.copy())):
        part = dataclasses.replace(changed.topics["orders"].partitions[1], leader=-1)
        seen = same.topics["orders"].partitions[1]
        changed.apply(part.record(orders.id, 1), changed.next_offset)
        assert changed.topics["orders"].partitions[1] == part
        assert changed.topics.by_id(orders.id) is changed.topics["orders"]
        assert same.topics["orders"].partitions[1] == seen
    assert orders.partitions == before
    copy.apply(RemoveTopic(orders.id), copy.next_offset)
    assert ("orders" in copy.topics, "orders" in image.topics) == (False, True)
    copy.apply(TopicRecord("orders", orders.id), copy.next_offset)
    assert (dict(copy.topics["orders"].partitions), len(image.topics["orders"].partitions)) == ({}, 2)


def test_a_partition_and_its_record_have_the_same_fields() -> None:
    which = ["topic_id", "index"]
    assert [field.name for field in msgspec.structs.fields(PartitionRecord)] == [
        *which,
        *(field.name for field in dataclasses.fields(Partition)),
    ]


def test_an_images_tables_are_read_only() -> None:
    image = Metadata().image
    with pytest.raises(TypeError, match="does not support item assignment"):
        image.topics["t"] = Topic("t", UUID(int=1), {})  # type: ignore[index]


def test_quotas_of_clients_are_counted_by_key() -> None:
    image = MetadataImage()

    def put(key: str, value: float | None, *entity: tuple[str, str | None]) -> set[str]:
        return image.apply(ClientQuotaRecord(entity, key, value), image.next_offset).client_quotas

    assert put("producer_byte_rate", 1.0, ("user", "u")) == {"producer_byte_rate"}
    assert put("producer_byte_rate", 2.0, ("user", "u")) == {"producer_byte_rate"}
    put("producer_byte_rate", 1.0, ("client-id", None), ("user", "u"))
    put("request_percentage", 1.0, ("client-id", None))
    assert put("connection_creation_rate", 1.0, ("ip", None)) == set()
    assert put("max_connections", 1.0, ("connection-group", "g")) == set()
    assert image.quotas.client_keys == {"producer_byte_rate": 2, "request_percentage": 1}
    before = image.copy()
    put("producer_byte_rate", None, ("user", "u"))
    put("request_percentage", None, ("client-id", None))
    put("request_percentage", None, ("client-id", "unknown"))
    assert image.quotas.client_keys == {"producer_byte_rate": 1}
    assert before.quotas.client_keys == {"producer_byte_rate": 2, "request_percentage": 1}
    loaded = at_once(MetadataImage.of_snapshot(list(image.records()), image.next_offset))
    assert loaded.quotas.client_keys == image.quotas.client_keys
    assert at_once(before.replace_by(loaded)).client_quotas == {"producer_byte_rate", "request_percentage"}
