"""Messages of errors have a limit: a response repeats them for each partition of its request."""

import pytest

from broker_runtime.controller.partitions.reassignments import reassign
from broker_runtime.errors import MESSAGE_MAX, ErrorCode, KafkaError, quoted
from broker_runtime.metadata.image import MetadataImage

LONG = "\N{GRINNING FACE}" * 16_000


def test_a_message_is_cut() -> None:
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, LONG)
    assert error.message == LONG[:MESSAGE_MAX]
    assert len(str(error)) < MESSAGE_MAX + 100


@pytest.mark.parametrize(
    ("name", "shown"), [("orders", "orders"), ("n" * 249, "n" * 249), ("n" * 250, "n" * 249 + "...")]
)
def test_a_name_is_cut_to_the_length_of_a_topics_name(name: str, shown: str) -> None:
    assert quoted(name) == shown


def test_the_error_of_an_unknown_topic_has_the_beginning_of_its_name() -> None:
    with pytest.raises(KafkaError) as refusal:
        reassign(LONG, 0, [1], MetadataImage())
    assert str(refusal.value) == f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named {quoted(LONG)}."
