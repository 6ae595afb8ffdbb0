"""An image as records: applying them gives the same metadata, for any history; and the differences of two images."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_runtime.metadata.areas import quotas
from broker_runtime.metadata.areas.brokers import (
    FenceBroker,
    RegisterBroker,
    StopBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from broker_runtime.metadata.areas.cluster import ClusterRecord, ControllerChange, FeatureLevelRecord
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.connection_groups import ConnectionGroup, ConnectionGroupTable
from broker_runtime.metadata.areas.producers import ProducerIdsRecord
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.snapshots import (
    SNAPSHOT_BATCH_BYTES,
    SnapshotFormatError,
    load_in_steps,
    snapshot_pieces,
)
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import endpoints

NEW = -1
_small = st.integers(0, 3)
_names = st.sampled_from(["a", "b", "c", "d"])
_ids = _names.map(lambda name: UUID(int=ord(name)))
_replicas = st.lists(_small, min_size=1, max_size=3, unique=True).map(tuple)
_records: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(ClusterRecord, st.just("cluster")),
    st.builds(ControllerChange, _small, st.integers(1, 20)),
    st.builds(FeatureLevelRecord, _names, _small),
    st.builds(
        RegisterBroker,
        _small,
        st.just(UUID(int=3)),
        st.sampled_from([NEW, 1, 2, 3]),
        st.just(endpoints("A", "B")),
        st.sampled_from([None, "rack"]),
        st.sampled_from([(), (("metadata.version", 1, 20),)]),
    ),
    st.builds(UnregisterBroker, _small, _small),
    st.builds(FenceBroker, _small, _small),
    st.builds(UnfenceBroker, _small, _small),
    st.builds(StopBroker, _small, _small, _small),
    st.builds(TopicRecord, _names, _ids),
    st.builds(
        PartitionRecord,
        _ids,
        _small,
        _replicas,
        _replicas,
        st.integers(-1, 3),
        _small,
        _small,
        _replicas,
        elr=_replicas,
    ),
    st.builds(RemoveTopic, _ids),
    st.builds(ConfigRecord, st.just(2), _names, _names, st.sampled_from([None, "1"])),
    st.builds(ConfigRecord, st.sampled_from([3, 16, 32]), _names, _names, st.sampled_from([None, "1"])),
    st.builds(ConfigRecord, st.just(4), st.sampled_from(["", "1", "2"]), _names, st.sampled_from([None, "1"])),
    st.builds(
        ClientQuotaRecord,
        st.sampled_from([(("ip", None),), (("ip", "::1"),), (("client-id", "x"), ("user", None))]),
        st.sampled_from(["connection_creation_rate", "producer_byte_rate"]),
        st.sampled_from([None, 1.5]),
    ),
    st.builds(
        ClientQuotaRecord,
        st.sampled_from(["a", "b"]).map(lambda name: (("connection-group", name),)),
        st.sampled_from(["connection_creation_rate", "shared"]),
        st.sampled_from([None, 1.0]),
    ),
    st.builds(
        ClientQuotaRecord,
        st.tuples(
            st.sampled_from(["a", "b"]).map(lambda name: ("connection-group", name)),
            st.sampled_from(["::1", "10.0.0.0/8"]).map(lambda member: ("ip", member)),
        ),
        st.just("member"),
        st.sampled_from([None, 1.0, 2.0]),
    ),
    st.builds(ProducerIdsRecord, _small, _small, st.integers(1, 9).map(lambda n: n * 1000)),
)
_histories = st.lists(_records, max_size=60)


def whole_snapshot(image: MetadataImage, now_ms: int) -> bytes:
    return b"".join(snapshot_pieces(image, now_ms))


def image_of(history: list[MetadataRecord]) -> MetadataImage:
    """An image of these records, without those that do not fit the previous ones, as no controller writes them."""
    image = MetadataImage()
    apply_what_fits(image, history)
    return image


def apply_what_fits(image: MetadataImage, history: list[MetadataRecord]) -> None:
    for record in history:
        try:
            image.apply(at_its_offset(record, image), image.next_offset)
        except ValueError:
            continue


def at_its_offset(record: MetadataRecord, image: MetadataImage) -> MetadataRecord:
    """The record with its own offset, which some records contain."""
    if isinstance(record, RegisterBroker) and record.epoch == NEW:
        return replace(record, epoch=image.next_offset)
    if isinstance(record, StopBroker):
        return replace(record, offset=image.next_offset)
    return record


@settings(max_examples=300, deadline=None)
@given(_histories)
def test_a_snapshot_is_the_image(history: list[MetadataRecord]) -> None:
    image = image_of([ClusterRecord("cluster"), *history])
    again = at_once(load_in_steps(whole_snapshot(image, 5), image.offset + 1))
    assert again == image
    assert whole_snapshot(again, 5) == whole_snapshot(image, 5)


@settings(max_examples=200, deadline=None)
@given(_histories, _histories)
def test_an_image_that_is_replaced_is_the_other_and_says_what_is_new(
    old: list[MetadataRecord], new: list[MetadataRecord]
) -> None:
    image, fresh, expected = image_of(old), image_of(new), image_of(new)
    before = image_of(old)
    changes = at_once(image.replace_by(fresh))
    assert image == expected
    for name in before.topics.keys() | image.topics.keys():
        was, now = before.topics.get(name), image.topics.get(name)
        known = was.partitions if was is not None and now is not None and was.id == now.id else {}
        changed = {i for i, part in now.partitions.items() if known.get(i) != part} if now is not None else set()
        assert {i for i in range(9) if now is not None and (now.id, i) in changes.partitions} == changed
        assert (name in changes.topics_removed) == (was is not None and (now is None or now.id != was.id))
    assert not changes.removals, "that a snapshot does not name something orders no deletion"
    for broker_id in range(4):
        assert (broker_id in changes.brokers) == (before.brokers.get(broker_id) != image.brokers.get(broker_id))
        different = before.configs.of_broker(broker_id) != image.configs.of_broker(broker_id)
        assert (broker_id in changes.broker_configs) == different
    for ip in (None, "::1"):
        assert (ip in changes.ip_quotas) == (before.quotas.ip_rate(ip) != image.quotas.ip_rate(ip))
    for name in ("a", "b"):
        old_group, group = (i.connection_groups.get(name, ConnectionGroup()) for i in (before, image))
        assert ((name, None) in changes.connection_groups) == (old_group.keys != group.keys)
        for member in ("::1", "10.0.0.0/8"):
            differs = old_group.members.get(member) != group.members.get(member)
            assert ((name, member) in changes.connection_groups) == differs
    assert image.connection_groups.members_total == sum(len(g.members) for g in image.connection_groups.values())


@settings(deadline=None, max_examples=100)
@given(_histories, _histories)
def test_a_copy_stays_as_it_was_while_the_image_goes_on(
    history: list[MetadataRecord], later: list[MetadataRecord]
) -> None:
    image = image_of(history)
    copy, was = image.copy(), whole_snapshot(image, 0)
    apply_what_fits(image, later)
    assert whole_snapshot(copy, 0) == was
    assert copy == image_of(history)
    assert all(copy.topics.by_id(topic.id) is topic for topic in copy.topics.values())


def test_a_large_snapshot_comes_in_pieces_of_bounded_size() -> None:
    image = MetadataImage()
    image.apply(TopicRecord("t", UUID(int=1)), 0)
    for index in range(2_000):
        image.apply(PartitionRecord(UUID(int=1), index, (1, 2, 3), (1, 2, 3), 1, 0, 0), 1 + index)
    pieces = list(snapshot_pieces(image, 0))
    assert len(pieces) > 1
    assert max(map(len, pieces)) < 2 * SNAPSHOT_BATCH_BYTES
    assert at_once(load_in_steps(b"".join(pieces), image.offset + 1)) == image


def _image_of_partitions(leader: int) -> MetadataImage:
    image = MetadataImage()
    for number in range(20):
        image.apply(TopicRecord(f"topic-{number}", UUID(int=number)), image.next_offset)
        for index in range(100):
            record = PartitionRecord(UUID(int=number), index, (1, 2), (1, 2), leader, 0, 0)
            image.apply(record, image.next_offset)
    return image


def test_a_large_image_is_compared_in_short_steps_and_replaced_by_the_last_one() -> None:
    image, fresh = _image_of_partitions(1), _image_of_partitions(2)
    topics, steps = image.topics, 0
    replacing = image.replace_by(fresh)
    while True:
        try:
            next(replacing)
        except StopIteration as ended:
            changes = ended.value
            break
        assert image.topics is topics
        steps += 1
    assert len(changes.partitions) == 2_000
    assert steps >= 2_000 // 64
    assert image == _image_of_partitions(2)
    assert (fresh.topics, image.topics.led_by(1), image.topics.led_by(2)) == (topics, 0, 2_000)


def test_one_connection_group_is_compared_in_one_step() -> None:
    before, fresh = ConnectionGroupTable(), ConnectionGroupTable()
    for number in range(100):
        record = ClientQuotaRecord((("connection-group", f"g{number}"),), "max_connections", 5.0)
        fresh.apply(record, number, Changes())
    changes, noted = Changes(), [0]
    for _ in before.note_differences(fresh, changes):
        noted.append(len(changes.connection_groups))
    assert len(changes.connection_groups) == 100
    assert max(later - earlier for earlier, later in pairwise(noted)) == 1


@settings(deadline=None, max_examples=100)
@given(_histories, _histories)
def test_the_number_of_partitions_that_a_broker_leads_is_known(
    history: list[MetadataRecord], later: list[MetadataRecord]
) -> None:
    image, fresh = image_of(history), image_of(later)
    copy = image.copy()
    apply_what_fits(copy, later)
    images = [image, fresh, copy]
    replaced = image_of(history)
    at_once(replaced.replace_by(image_of(later)))
    for each in (*images, replaced):
        leaders = [part.leader for topic in each.topics.values() for part in topic.partitions.values()]
        assert [each.topics.led_by(broker_id) for broker_id in range(-1, 5)] == [
            leaders.count(broker_id) for broker_id in range(-1, 5)
        ]


def test_the_same_metadata_changes_nothing() -> None:
    history: list[MetadataRecord] = [TopicRecord("t", UUID(int=1)), ConfigRecord(2, "t", "retention.ms", "1")]
    assert at_once(image_of(history).replace_by(image_of(history))) == Changes()


def test_same_looks_at_the_offset_too() -> None:
    one, other = image_of([ClusterRecord("c")]), image_of([ClusterRecord("c")])
    assert one == other
    other.apply(ClusterRecord("c"), 1)
    assert one != other
    assert list(one.records()) == list(other.records())


def test_a_damaged_or_cut_snapshot_is_refused() -> None:
    image = image_of([ClusterRecord("cluster"), *(ConfigRecord(4, "", f"key-{n}", "x" * 100) for n in range(6000))])
    whole = whole_snapshot(image, 0)
    assert at_once(load_in_steps(whole, 6001)).configs.of_broker(None) == image.configs.of_broker(None)
    for damaged in (b"", whole[:-1], whole[:30], whole[:700_000] + b"!" + whole[700_001:]):
        with pytest.raises(SnapshotFormatError):
            at_once(load_in_steps(damaged, 6001))


def test_a_snapshot_is_loaded_in_steps() -> None:
    image = MetadataImage()
    image.apply(TopicRecord("t", UUID(int=1)), 0)
    for index in range(2_000):
        image.apply(PartitionRecord(UUID(int=1), index, (1,), (1,), 1, 0, 0), 1 + index)
    assert sum(1 for _ in load_in_steps(whole_snapshot(image, 0), image.offset + 1)) >= 200


def test_quotas_that_were_sorted_in_steps_are_not_sorted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    image = MetadataImage()
    for number in range(2_000):
        image.apply(ClientQuotaRecord((("ip", f"n{number * 7 % 2_000}"),), "connection_creation_rate", 5.0), number)
    expected = list(image.quotas.records())
    assert sum(1 for _ in image.quotas.sort()) >= 10
    longest = 0

    def noted(items: Iterable[Any], **_: object) -> list[Any]:
        nonlocal longest
        longest = max(longest, len(found := list(items)))
        return found

    monkeypatch.setattr(quotas, "sorted", noted, raising=False)
    assert list(image.quotas.records()) == expected
    assert longest == 1, "only the keys of each entity"
    monkeypatch.undo()
    image.apply(ClientQuotaRecord((("ip", "a"),), "connection_creation_rate", 5.0), 2_000)
    assert len(list(image.quotas.records())) == 2_001, "a change sorts again"
