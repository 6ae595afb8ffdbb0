"""A verifier of transactions whose answers a test sets, and which notes the questions."""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError


class Question(NamedTuple):
    """One question to the coordinator of a transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]
    add: bool


class ScriptedVerifier:
    """An implementation of `apis.request.verification.VerifiesTransactions`.

    `answers` are given one after the other; then `answer` is given. The answer is for all partitions of a question,
    except those in `codes`. While `holds` is set, questions wait until the test calls `answer_next`.
    """

    def __init__(self) -> None:
        self.is_enabled = True
        self.retry_backoff_s, self.retry_backoff_max_s = 0.02, 0.1
        self.questions: list[Question] = []
        self.answers: list[ErrorCode] = []
        self.answer = ErrorCode.NONE
        self.codes: dict[tuple[str, int], ErrorCode] = {}
        self.error: KafkaError | None = None
        """The error in place of any answer."""
        self.holds = False
        self._waiting: list[tuple[Question, asyncio.Future[Mapping[tuple[str, int], ErrorCode]]]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[tuple[str, int]],
        *,
        add: bool,
    ) -> "asyncio.Future[Mapping[tuple[str, int], ErrorCode]]":
        question = Question(transactional_id, producer_id, epoch, tuple(sorted(partitions)), add)
        self.questions.append(question)
        self._waiting.append((question, asyncio.get_running_loop().create_future()))
        answer = self._waiting[-1][1]
        if not self.holds:
            self.answer_next()
        return answer

    def answer_next(self) -> None:
        """Answer the oldest question that waits."""
        question, answer = self._waiting.pop(0)
        if answer.done():
            return
        if self.error is not None:
            answer.set_exception(self.error)
            return
        code = self.answers.pop(0) if self.answers else self.answer
        answer.set_result({each: self.codes.get(each, code) for each in question.partitions})
