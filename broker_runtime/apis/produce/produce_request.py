"""Produce's request, versions 3 to 13, read by hand: the product's hot path. Pure.

The record bytes remain a view into the frame. The whole request is read before the first append, so a truncated request
appends nothing, as in Kafka. Version 13 names topics by id (KIP-516); they are converted to names here.
"""

from struct import Struct
from uuid import UUID

from broker_runtime.metadata.areas.topics import Topics
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.reader import RequestReader

_ACKS_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">i")
_NO_TAGS = b"\x00"
_AT_ONCE_MAX = 50
"""Maximum number of topics and partitions of a request that is handled at once: about a millisecond of appends."""
_PARTITIONS_OF_A_STEP = 8

AskedAppend = tuple[int, str | UUID, int, memoryview | None]
"""One append of a Produce request: the place of its result in the answer, topic, partition, and records.

The records are valid only as long as the frame. The topic is an id if no topic with this id exists.
"""


ProduceRequest = tuple[str | None, int, int, list[AskedAppend], list[bytes]]
"""A parsed Produce request.

The fields are the transactional id, acks, timeout in milliseconds, the appends, and the beginning of the answer. The
beginning of the answer has the topics and counts of the request, and an empty place for each partition's result.
"""


def read_request(reader: RequestReader, by_id: Topics | None) -> ProduceRequest | None:
    """Read a Produce request with few partitions. Raises ProtocolError.

    `by_id` resolves topic ids, for versions that use them. None if the request names many partitions, and must be read
    in steps; the reader's position is unchanged then.
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
        # The bytes before a partition's result in the answer are those before the partition in the request.
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
    """Read a Produce request with any number of partitions, in steps.

    Raises ProtocolError and RequestTooLargeError.

    `by_id`: topics are named by their ids. The ids are not resolved here, because topics may be created or deleted
    between two steps.
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
