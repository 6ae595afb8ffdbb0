"""AddPartitionsToTxn (24), version 5, between brokers: questions, and the codes of its answers. Pure (KIP-890)."""

from collections.abc import Sequence

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, each, pages
from broker_runtime.transactions.seam import TopicPartition
from broker_runtime.transactions.verification.questions import Codes, Question
from broker_runtime.wire.messages import Entity, Fields

VERSION = 5
"""The version that brokers send. From version 4 on, it is for brokers only."""
_OF_A_STEP = 64
_KNOWN = {int(code): code for code in ErrorCode}


def request_of(questions: Sequence[Question]) -> Steps[Fields]:
    """Return the content of a request with these questions."""
    content: list[Fields] = []
    for question in questions:
        by_topic: dict[str, list[int]] = {}
        for some in pages(question.partitions, _OF_A_STEP):
            for topic, index in some:
                by_topic.setdefault(topic, []).append(index)
            yield
        topics = yield from each(by_topic.items(), _topic)
        content.append(
            {
                "transactional_id": question.transactional_id,
                "producer_id": question.producer_id,
                "producer_epoch": question.epoch,
                "verify_only": not question.add,
                "topics": topics,
            }
        )
        yield
    return {"transactions": content}


def codes_in(answer: Entity, questions: Sequence[Question]) -> Steps[list[Codes]]:
    """Return the codes of an answer, for each question. An error of the whole answer is the code of all partitions.

    A partition that the answer does not have is missing in the codes.
    """
    if answer.error_code != ErrorCode.NONE:
        code = _known(answer.error_code)
        return [dict.fromkeys(question.partitions, code) for question in questions]
    by_id: dict[str, dict[TopicPartition, ErrorCode]] = {}
    for transaction in answer.results_by_transaction:
        codes = by_id.setdefault(transaction.transactional_id, {})
        for topic in transaction.topic_results:
            for some in pages(topic.results_by_partition, _OF_A_STEP):
                codes.update(((topic.name, part.partition_index), _known(part.partition_error_code)) for part in some)
                yield
    return [by_id.get(question.transactional_id, {}) for question in questions]


def _topic(found: tuple[str, list[int]]) -> Fields:
    return {"name": found[0], "partitions": found[1]}


def _known(code: int) -> ErrorCode:
    return _KNOWN.get(int(code), ErrorCode.UNKNOWN_SERVER_ERROR)
