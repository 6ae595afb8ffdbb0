"""Metadata as a whole: an image as records, records as a snapshot's bytes, and what differs between two images.

Pure. A snapshot is record batches as in the log, so that one reader and one checksum serve both; their offsets do not
count, all of it stands for "everything before the snapshot's end offset" (KIP-630). Records come sorted, so that the
same metadata gives the same bytes whatever its history was.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from broker_runtime.errors import KafkaError
from broker_runtime.metadata.image import BrokerInfo, Changes, MetadataImage, ResourceType, Topic
from broker_runtime.metadata.records import (
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerChange,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RecordFormatError,
    RegisterBroker,
    StopBroker,
    TopicRecord,
    UnfenceBroker,
    decode_record,
    encode_record,
)
from broker_runtime.storage.batch import checksum, encode_batch, iter_batches, iter_records

BATCH_BYTES_MAX = 512 * 1024
SNAPSHOT_BATCH_BYTES = 16 * 1024
"""So small that other work of the controller waits a few ms at most while one is encoded."""
_NOBODY = -1


class SnapshotFormatError(Exception):
    """Bytes that are no whole snapshot."""


def in_batches(records: Iterable[Record], bytes_max: int = BATCH_BYTES_MAX) -> Iterator[Sequence[tuple[Record, bytes]]]:
    """Cut where a batch would become larger than `bytes_max`; each batch leaves a valid state behind."""
    batch: list[tuple[Record, bytes]] = []
    size = 0
    for record in records:
        encoded = encode_record(record)
        if batch and size + len(encoded) > bytes_max:
            yield batch
            batch, size = [], 0
        batch.append((record, encoded))
        size += len(encoded)
    if batch:
        yield batch


def snapshot_pieces(image: MetadataImage, now_ms: int) -> Iterator[bytes]:
    """A snapshot is all of them together; `image` must not change meanwhile."""
    for batch in in_batches(iter_image_records(image), SNAPSHOT_BATCH_BYTES):
        yield encode_batch([(None, encoded) for _, encoded in batch], now_ms)


def write_snapshot(image: MetadataImage, now_ms: int) -> bytes:
    return b"".join(snapshot_pieces(image, now_ms))


def read_snapshot(payload: bytes) -> Iterator[Record]:
    """Raises SnapshotFormatError, at the latest at the end of what can be read."""
    read = 0
    try:
        for header, batch in iter_batches(payload):
            if checksum(batch) != header.crc:
                raise SnapshotFormatError(f"the batch at byte {read} has another checksum than it says")
            for item in iter_records(batch):
                yield decode_record(item.value)
            read += header.size
    except (RecordFormatError, KafkaError) as error:
        raise SnapshotFormatError(f"the batch at byte {read} cannot be read: {error}") from error
    if read != len(payload) or not payload:
        raise SnapshotFormatError(f"it ends in the middle of a batch, at byte {read} of {len(payload)}")


def load_image(payload: bytes, end_offset: int) -> MetadataImage:
    """Raises SnapshotFormatError."""
    image = MetadataImage()
    for record in read_snapshot(payload):
        try:
            image.apply(record, end_offset - 1)
        except ValueError as error:
            raise SnapshotFormatError(str(error)) from error
    return image


def image_records(image: MetadataImage) -> list[Record]:
    return list(iter_image_records(image))


def iter_image_records(image: MetadataImage) -> Iterator[Record]:
    """Records that make an equal image of an empty one, applied at the image's own offset."""
    if image.cluster_id is not None:
        yield ClusterRecord(image.cluster_id)
    if image.controller_epoch:
        yield ControllerChange(image.controller_id, image.controller_epoch)
    for feature, level in sorted(image.features.items()):
        yield FeatureLevelRecord(feature, level)
    for broker_id in sorted(image.brokers):
        yield from _broker(image.brokers[broker_id])
    for name in sorted(image.topics):
        yield from _topic(image.topics[name])
    for name in sorted(image.configured_topics()):
        yield from _configs(ResourceType.TOPIC, name, image.topic_configs(name))
    for owner in sorted(image.configured_brokers(), key=_default_first):
        yield from _configs(ResourceType.BROKER, "" if owner is None else str(owner), image.broker_configs(owner))
    for entity in sorted(image.client_quotas, key=repr):
        quotas = image.client_quotas[entity]
        for key in sorted(quotas):
            yield ClientQuotaRecord(entity, key, quotas[key])
    if image.next_producer_id:
        yield ProducerIdsRecord(_NOBODY, _NOBODY, image.next_producer_id)


def _default_first(broker_id: int | None) -> int:
    return -1 if broker_id is None else broker_id


def _broker(broker: BrokerInfo) -> Iterator[Record]:
    yield RegisterBroker(
        broker.id,
        broker.incarnation,
        broker.epoch,
        broker.endpoints,
        broker.rack,
        broker.features,
        broker.whole_since,
    )
    if not broker.fenced:
        yield UnfenceBroker(broker.id, broker.epoch)
    if broker.stopping_offset is not None:
        yield StopBroker(broker.id, broker.epoch, broker.stopping_offset)


def _topic(topic: Topic) -> Iterator[Record]:
    yield TopicRecord(topic.name, topic.id)
    for index in sorted(topic.partitions):
        part = topic.partitions[index]
        yield PartitionRecord(
            topic.id,
            index,
            part.replicas,
            part.isr,
            part.leader,
            part.leader_epoch,
            part.partition_epoch,
            part.adding,
            part.removing,
            part.elr,
        )


def _configs(kind: ResourceType, name: str, values: Mapping[str, str]) -> Iterator[Record]:
    for key in sorted(values):
        yield ConfigRecord(int(kind), name, key, values[key])


def same(one: MetadataImage, other: MetadataImage) -> bool:
    """Whether two nodes have the same metadata, up to the same offset."""
    return one.offset == other.offset and image_records(one) == image_records(other)


def replace_image(image: MetadataImage, fresh: MetadataImage) -> Changes:
    """Make `image` equal to `fresh`, which must not be used any more; says what a node has to react to."""
    changes = _differences(image, fresh)
    vars(image).update(vars(fresh))
    return changes


def _differences(old: MetadataImage, new: MetadataImage) -> Changes:
    changes = Changes(brokers=_changed(old.brokers, new.brokers))
    for name in old.topics.keys() | new.topics.keys():
        before, after = old.topics.get(name), new.topics.get(name)
        if before is not None and (after is None or after.id != before.id):
            changes.topics_removed.add(name)
        if after is not None and (before is None or before != after):
            changes.topics.add(name)
    for name in set(old.configured_topics()) | set(new.configured_topics()):
        if old.topic_configs(name) != new.topic_configs(name):
            changes.topic_configs.add(name)
    for broker_id in set(old.configured_brokers()) | set(new.configured_brokers()):
        if old.broker_configs(broker_id) != new.broker_configs(broker_id):
            changes.broker_configs.add(broker_id)
    changes.ip_quotas = {
        entity[0][1]
        for entity in old.client_quotas.keys() | new.client_quotas.keys()
        if len(entity) == 1 and entity[0][0] == "ip" and old.ip_rate(entity[0][1]) != new.ip_rate(entity[0][1])
    }
    return changes


def _changed(old: Mapping[int, BrokerInfo], new: Mapping[int, BrokerInfo]) -> set[int]:
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
