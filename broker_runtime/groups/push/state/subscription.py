"""The subscription of a consumer: the text `topic_count`, as in Kafka 0.7. Pure.

`{"orders": 2}` maps topics to their numbers of streams. `*2*regex` are two streams for all topics that match,
`!2!regex` for all topics that do not match. A stream is a thread of the consumer with its own partitions.
"""

import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.topic_regex import compile_topic_regex
from broker_runtime.metadata.topic_names import check_topic_name

STREAMS_MAX = 100
"""Maximum number of streams of a consumer. More threads than the machine has cores read no faster.

This limit and TOPICS_MAX are not configurable: with a smaller limit, the next coordinator would not understand a
registration that another one has accepted.
"""
TOPICS_MAX = 1_000
"""Maximum number of topics that a consumer names."""

_WILDCARD = re.compile(r"(?P<marker>[*!])(?P<streams>[0-9]{1,9})(?P=marker)(?P<regex>.*)", re.ASCII | re.DOTALL)
_STREAMS = msgspec.json.Decoder(dict[str, Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)]])
_SHOWN = 100


class Wildcard(NamedTuple):
    """The topics whose names match an expression or, if `excluded`, do not match it."""

    regex: str
    excluded: bool


class Subscription(NamedTuple):
    """The topics that a consumer reads, with a number of streams for each.

    Numbers of streams are by topic name; a wildcard has one number for each topic that matches.
    """

    topics: Mapping[str, int]
    wildcard: Wildcard | None = None
    streams: int = 0
    """Number of streams of the wildcard."""

    @property
    def threads(self) -> int:
        return self.streams if self.wildcard is not None else max(self.topics.values(), default=0)


def parse_topic_count(text: str) -> Subscription:
    """Parse the field `topic_count` of a registration.

    Raises KafkaError (INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, INVALID_REGULAR_EXPRESSION).
    """
    found = _WILDCARD.fullmatch(text)
    if found is None:
        return Subscription(_topics(text))
    streams = int(found["streams"])
    if not 1 <= streams <= STREAMS_MAX:
        raise _invalid(f"a consumer must have 1 to {STREAMS_MAX} streams, not {streams}")
    compile_topic_regex(found["regex"])
    return Subscription({}, Wildcard(found["regex"], found["marker"] == "!"), streams)


def _topics(text: str) -> Mapping[str, int]:
    try:
        topics = _STREAMS.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise _invalid(
            'topic_count must be {"topic": streams}, *streams*regex or !streams!regex, not '
            f"{text[:_SHOWN]!r}: {error}"
        ) from error
    if not 1 <= len(topics) <= TOPICS_MAX:
        raise _invalid(f"a consumer must name 1 to {TOPICS_MAX} topics, not {len(topics)}")
    for name in topics:
        check_topic_name(name)
    return topics


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
