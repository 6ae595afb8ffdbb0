"""Produce's request, versions 3 to 13, read by hand: the product's hot path. Pure.

The record bytes stay a view into the frame. All of it is read before anything is done: a request that breaks off has
appended nothing, as in Kafka. Version 13 names topics by id (KIP-516), which are names for all who come after.
"""

from struct import Struct
from uuid import UUID

from broker_runtime.metadata.topics import Topics
from broker_runtime.steps import Steps
from broker_runtime.wire.reader import RequestReader

_ACKS_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">i")
_NO_TAGS = b"\x00"
_AT_ONCE_MAX = 50
"""Topics and partitions of a request that is read and carried out at once: about a millisecond of appends."""
_PARTITIONS_OF_A_STEP = 8

AskedAppend = tuple[int, str | UUID, int, memoryview | None]
"""The place of its result in the answer, topic, partition, and records, which are valid as long as the frame is.

A topic is an id where there is none with that id.
"""


ProduceRequest = tuple[str | None, int, int, list[AskedAppend], list[bytes]]
"""Transactional id, acks, time-out in milliseconds, what is to be appended, and how the answer will begin: topics and
counts as they were asked, and an empty place for each partition's result.
"""


def read_request(reader: RequestReader, by_id: Topics | None) -> ProduceRequest | None:
    """`by_id`: where to look topics up of a version that names them so. None where the request names many partitions,
    and is to be read in steps: the reader is where it was then. Raises ProtocolError.
    """
    begin, flexible = reader.position, reader.flexible
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.fixed(_ACKS_TIMEOUT)
    appends: list[AskedAppend] = []
    answer: list[bytes] = []
    topics_at = reader.position
    topics = reader.array_length()
    if not topics:
        answer.append(reader.since(topics_at))
    left = _AT_ONCE_MAX - topics
    for _ in range(topics if left >= 0 else 0):
        topic: str | UUID
        if by_id is None:
            topic = reader.string()
        else:
            topic = reader.uuid()
            known = by_id.by_id(topic)
            if known is not None:
                topic = known.name
        partitions = reader.array_length()
        left -= partitions
        if left < 0:
            break
        # In the answer all that stands before a partition's result is the same.
        answer.append(reader.since(topics_at))
        for _ in range(partitions):
            (index,) = reader.fixed(_PARTITION)
            appends.append((len(answer), topic, index, reader.nullable_bytes()))
            answer.append(b"")
            if flexible:
                reader.end_struct()
        if flexible:
            reader.end_struct()
            answer.append(_NO_TAGS)
        topics_at = reader.position
    if left < 0:
        reader.position = begin
        return None
    reader.end_struct()
    return transactional_id, acks, timeout_ms, appends, answer


def read_in_steps(reader: RequestReader, by_id: bool) -> Steps[ProduceRequest]:
    """As `read_request`, however many partitions there are. Raises ProtocolError, and RequestTooLargeError too.

    `by_id`: topics are named by their ids. All of them stay ids, because topics may come and go between two steps.
    """
    flexible = reader.flexible
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.fixed(_ACKS_TIMEOUT)
    appends: list[AskedAppend] = []
    answer: list[bytes] = []
    topics_at = reader.position
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if by_id else reader.string()
        partitions = reader.array_length()
        answer.append(reader.since(topics_at))
        for number in range(partitions):
            (index,) = reader.fixed(_PARTITION)
            appends.append((len(answer), topic, index, reader.nullable_bytes()))
            answer.append(b"")
            if flexible:
                reader.end_struct()
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
        if flexible:
            reader.end_struct()
            answer.append(_NO_TAGS)
        topics_at = reader.position
        yield
    reader.end_struct()
    return transactional_id, acks, timeout_ms, appends, answer
