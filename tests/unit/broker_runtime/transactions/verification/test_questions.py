"""Questions about transactions wait for one request at a time to each coordinator's broker."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.transactions.seam import TopicPartition
from broker_runtime.transactions.verification.questions import Codes, Question, Questions

A, B = ("orders", 0), ("orders", 1)
COORDINATOR = 2
FENCED, LOST = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NETWORK_EXCEPTION


class Asked:
    """A question of one asker, and the codes that it gets."""

    def __init__(
        self, *partitions: TopicPartition, name: str = "pay", producer_id: int = 7, epoch: int = 1, add: bool = False
    ) -> None:
        self.codes: list[Codes] = []
        self.question = Question(name, producer_id, epoch, add)
        self.question.ask_also(partitions or (A,), self.codes.append)


@pytest.fixture
def questions() -> Questions:
    return Questions(questions_max=3, partitions_max=4)


def asked_together(questions: Questions) -> list[Question]:
    assert questions.ready() == [COORDINATOR]
    return questions.take(COORDINATOR)


def test_questions_wait_for_the_request_under_way(questions: Questions) -> None:
    first, second, third = Asked(name="a"), Asked(name="b"), Asked(name="c")
    questions.ask(COORDINATOR, first.question)
    assert asked_together(questions) == [first.question]
    questions.ask(COORDINATOR, second.question)
    questions.ask(COORDINATOR, third.question)
    assert questions.ready() == []
    questions.done(COORDINATOR)
    assert asked_together(questions) == [second.question, third.question]
    questions.done(COORDINATOR)
    assert questions.ready() == []


def test_questions_of_one_producer_are_asked_together_and_each_asker_gets_its_partitions(questions: Questions) -> None:
    first, second = Asked(A), Asked(B, A)
    questions.ask(COORDINATOR, first.question)
    questions.ask(COORDINATOR, second.question)
    (question,) = asked_together(questions)
    assert list(question.partitions) == [A, B]
    question.answer({A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE})
    assert first.codes == [{A: ErrorCode.NONE}]
    assert second.codes == [{B: ErrorCode.TRANSACTION_ABORTABLE, A: ErrorCode.NONE}]


def test_a_later_epoch_refuses_the_question_that_waits(questions: Questions) -> None:
    older, newer = Asked(epoch=1), Asked(epoch=2)
    questions.ask(COORDINATOR, older.question)
    questions.ask(COORDINATOR, newer.question)
    assert older.codes == [{A: FENCED}]
    assert asked_together(questions) == [newer.question]


def test_an_earlier_epoch_is_refused(questions: Questions) -> None:
    newer, older = Asked(epoch=2), Asked(epoch=1)
    questions.ask(COORDINATOR, newer.question)
    questions.ask(COORDINATOR, older.question)
    assert older.codes == [{A: FENCED}]
    assert asked_together(questions) == [newer.question]


def test_a_question_of_another_kind_replaces_the_one_of_the_same_epoch(questions: Questions) -> None:
    first, second = Asked(add=False), Asked(add=True)
    questions.ask(COORDINATOR, first.question)
    questions.ask(COORDINATOR, second.question)
    assert first.codes == [{A: LOST}]
    assert asked_together(questions) == [second.question]


def test_a_question_under_way_is_not_touched(questions: Questions) -> None:
    first, second = Asked(epoch=1), Asked(epoch=2)
    questions.ask(COORDINATOR, first.question)
    asked_together(questions)
    questions.ask(COORDINATOR, second.question)
    assert first.codes == []


def test_a_transactional_id_is_in_a_request_once(questions: Questions) -> None:
    before, after, other = Asked(producer_id=7), Asked(producer_id=8), Asked(name="other")
    for each in (before, after, other):
        questions.ask(COORDINATOR, each.question)
    assert asked_together(questions) == [before.question, other.question]
    questions.done(COORDINATOR)
    assert asked_together(questions) == [after.question]


def test_a_question_beyond_the_limit_is_refused(questions: Questions) -> None:
    for number in range(3):
        questions.ask(COORDINATOR, Asked(name=str(number)).question)
    further, same = Asked(name="further"), Asked(B, name="1")
    questions.ask(COORDINATOR, further.question)
    questions.ask(COORDINATOR, same.question)
    assert (further.codes, same.codes) == ([{A: LOST}], [])
    assert questions.waiting == 3


def test_a_request_has_no_more_partitions_than_the_limit_unless_one_question_has(questions: Questions) -> None:
    large = Asked(*(("orders", index) for index in range(9)), name="large")
    small, other = Asked(A, B, name="small"), Asked(A, B, name="other")
    for each in (small, large, other):
        questions.ask(COORDINATOR, each.question)
    sizes = []
    while questions.ready():
        sizes.append([question.transactional_id for question in asked_together(questions)])
        questions.done(COORDINATOR)
    assert sizes == [["small"], ["large"], ["other"]]


def test_a_partition_without_a_code_has_an_unknown_error() -> None:
    asked = Asked(A, B)
    asked.question.answer({A: ErrorCode.NONE})
    assert asked.codes == [{A: ErrorCode.NONE, B: ErrorCode.UNKNOWN_SERVER_ERROR}]
