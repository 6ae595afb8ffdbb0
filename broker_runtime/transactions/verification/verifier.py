"""Asks the coordinators of transactions before their first records are appended to a partition. Shell (KIP-890)."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import TRANSACTIONS_TOPIC
from broker_runtime.slicing.slices import Slices
from broker_runtime.transactions.broker_links import BrokerConnection, BrokerLinks
from broker_runtime.transactions.leaders import NO_LEADER, leaders_in
from broker_runtime.transactions.seam import TopicPartition, Verifying
from broker_runtime.transactions.verification.figures import VerificationTally
from broker_runtime.transactions.verification.questions import Codes, Question, Questions
from broker_runtime.transactions.verification.requests import VERSION, codes_in, request_of
from broker_runtime.wire.versions import ADD_PARTITIONS_TO_TXN

log = logging.getLogger(__name__)

_FAILED = ErrorCode.NETWORK_EXCEPTION
"""The code of a question whose request got no answer: clients try again."""


class TransactionVerifier:
    """Asks coordinators. Implements `apis.request.verification.VerifiesTransactions`.

    Owns the tasks of requests under way, at most one for each broker, and the connections to those brokers. All calls
    are made on the event loop.
    """

    def __init__(
        self,
        me: int,
        image: MetadataImage,
        coordinator: Callable[[], Verifying],
        config: Callable[[], BrokerConfig],
        link_to: Callable[[int], BrokerConnection],
        slices: Slices,
        clock: Clock,
    ) -> None:
        """`coordinator` returns the coordinator on this broker, whose id is `me`. `config`: the one in force."""
        self._me = me
        self._image = image
        self._leader_of = leaders_in(image)
        self._coordinator = coordinator
        self._config = config
        limits = config()
        self.questions = Questions(
            limits.sluicegate_transaction_verification_queue_max, limits.sluicegate_transaction_request_partitions_max
        )
        self._links = BrokerLinks(link_to, limits.request_timeout_ms / 1000, slices)
        self._slices = slices
        self._now_s = clock.monotonic
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: str | None = None
        """The last problem that was logged."""
        self.tally = VerificationTally()

    @property
    def is_enabled(self) -> bool:
        """Return whether transactions of clients before transaction version 2 are verified."""
        return self._config().transaction_partition_verification_enable

    @property
    def retry_backoff_s(self) -> float:
        """Return the pause before a Produce asks again, in seconds."""
        return self._config().add_partitions_to_txn_retry_backoff_ms / 1000

    @property
    def retry_backoff_max_s(self) -> float:
        """Return the time for which a Produce asks again, in seconds."""
        return self._config().add_partitions_to_txn_retry_backoff_max_ms / 1000

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> "asyncio.Future[Mapping[TopicPartition, ErrorCode]]":
        """Return a future of an error code for each partition; NONE if it is part of the transaction now.

        `add`: the coordinator adds the partitions that are not. Cancelling the future ends only the wait.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Mapping[TopicPartition, ErrorCode]] = loop.create_future()
        begun_s = self._now_s()

        def on_answer(codes: Codes) -> None:
            self.tally.answered(codes, self._now_s() - begun_s)
            if not answer.done():
                answer.set_result(codes)

        question = Question(transactional_id, producer_id, epoch, add)
        question.ask_also(tuple(partitions), on_answer)
        leader = self._coordinator_of(transactional_id)
        if leader == NO_LEADER:
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif leader == self._me:
            self._begin(self._ask_here(question), "verification of a transaction")
        else:
            self.questions.ask(leader, question)
            self._ask_ready()
        return answer

    def _coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that coordinates the id, or NO_LEADER."""
        partitions = len(self._image.partitions_of(TRANSACTIONS_TOPIC))
        if not partitions:
            return NO_LEADER
        leader = self._leader_of((TRANSACTIONS_TOPIC, partition_of(transactional_id, partitions)))
        return NO_LEADER if leader is None else leader

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_here(self, question: Question) -> None:
        """Ask the coordinator on this broker."""
        codes: Codes = dict.fromkeys(question.partitions, _FAILED)
        try:
            codes = await self._coordinator().verify(
                question.transactional_id,
                question.producer_id,
                question.epoch,
                tuple(question.partitions),
                add=question.add,
            )
        except Exception:
            log.exception("a transaction could not be verified on this broker")
        finally:
            question.answer(codes)

    def _ask_ready(self) -> None:
        """Begin the requests that are possible now."""
        for broker_id in self.questions.ready():
            asked = self.questions.take(broker_id)
            self._begin(self._ask(broker_id, asked), f"verification of transactions by broker {broker_id}")

    async def _ask(self, broker_id: int, questions: list[Question]) -> None:
        """Ask another broker, and answer the questions, whatever happens."""
        answers: list[Codes] = [dict.fromkeys(question.partitions, _FAILED) for question in questions]
        try:
            answers = await self._answers_of(broker_id, questions)
            self._problem = None
        except KafkaError as error:
            self._note(error.message or error.code.name)
        except Exception:
            log.exception("transactions could not be verified by broker %d", broker_id)
        finally:
            self.questions.done(broker_id)
            for question, codes in zip(questions, answers, strict=True):
                question.answer(codes)
        self._ask_ready()

    async def _answers_of(self, broker_id: int, questions: list[Question]) -> list[Codes]:
        content = await self._slices.finish(request_of(questions))
        answer = await self._links.ask(broker_id, ADD_PARTITIONS_TO_TXN, VERSION, content)
        return await self._slices.finish(codes_in(answer, questions))

    def _note(self, problem: str) -> None:
        """Log a problem once, until a request succeeds."""
        if self._problem != problem:
            self._problem = problem
            log.warning("%s; clients send the records of their transactions again", problem)

    async def close(self) -> None:
        """End all requests. Each question is answered."""
        for question in self.questions.all_waiting():
            question.refuse(_FAILED)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._links.close()
