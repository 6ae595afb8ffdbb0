"""Topics of requests that name them until a version, and have their ids from then on. Pure."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topics import Topic
from broker_runtime.wire.messages import Fields

P = TypeVar("P")


class WantedTopic(NamedTuple, Generic[P]):
    """`known` is None where no such topic is there, for which `problem` is the error."""

    name: str | None
    topic_id: UUID | None
    known: Topic | None
    partitions: Sequence[P]
    problem: ErrorCode

    def answer(self, partitions: Sequence[Fields]) -> Fields:
        """Named as it was asked for."""
        return {"name": self.name, "topic_id": self.topic_id, "partitions": partitions}


def wanted_topic(item: Any, partitions: Sequence[P], image: MetadataImage, *, by_id: bool) -> WantedTopic[P]:
    """`item` is a topic of a request."""
    if by_id:
        known = None if item.topic_id is None else image.topics.by_id(item.topic_id)
        name = None if known is None else known.name
        return WantedTopic(name, item.topic_id, known, partitions, ErrorCode.UNKNOWN_TOPIC_ID)
    known = image.topics.get(item.name)
    topic_id = None if known is None else known.id
    return WantedTopic(item.name, topic_id, known, partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
