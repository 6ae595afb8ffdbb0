"""The questions about transactions that wait for each coordinator's broker. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker_runtime.errors import ErrorCode
from broker_runtime.transactions.seam import TopicPartition

Codes = Mapping[TopicPartition, ErrorCode]
"""An error code for each partition of a question."""
OnAnswer = Callable[[Codes], None]


@dataclass(slots=True, eq=False)
class Question:
    """A question about the partitions of one producer's transaction, of one or more askers."""

    transactional_id: str
    producer_id: int
    epoch: int
    add: bool
    """Whether the coordinator adds the partitions to the transaction."""
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    askers: list[tuple[Collection[TopicPartition], OnAnswer]] = field(default_factory=list)

    def ask_also(self, partitions: Collection[TopicPartition], on_answer: OnAnswer) -> None:
        """Add the partitions of an asker to the question."""
        if self.partitions:
            self.partitions.update(dict.fromkeys(partitions))
        else:
            self.partitions = dict.fromkeys(partitions)
        self.askers.append((partitions, on_answer))

    def answer(self, codes: Codes) -> None:
        """Give each asker the codes of its partitions. A partition without a code has UNKNOWN_SERVER_ERROR."""
        askers, self.askers = self.askers, []
        if len(askers) == 1 and len(codes) == len(self.partitions):
            # A copy for the only asker would take long for very many partitions.
            askers[0][1](codes)
            return
        for partitions, on_answer in askers:
            on_answer({place: codes.get(place, ErrorCode.UNKNOWN_SERVER_ERROR) for place in partitions})

    def refuse(self, code: ErrorCode) -> None:
        """Give each asker the same code for all of its partitions."""
        self.answer(dict.fromkeys(self.partitions, code))


@dataclass(slots=True)
class _Destination:
    """A broker that coordinates transactional ids."""

    waiting: dict[tuple[str, int], Question] = field(default_factory=dict)
    """Questions by transactional id and producer id, in the order of their arrival."""
    is_asked: bool = False
    """Whether a request is under way."""


class Questions:
    """The questions of this broker to the coordinators on other brokers. Nothing is durable."""

    def __init__(self, questions_max: int, partitions_max: int) -> None:
        """`questions_max` limits the questions that wait for a broker, `partitions_max` the partitions of a request."""
        self._questions_max = questions_max
        self._partitions_max = partitions_max
        self._destinations: dict[int, _Destination] = {}

    def ask(self, broker_id: int, question: Question) -> None:
        """Queue a question, or answer it at once if it must not wait."""
        to = self._destinations.setdefault(broker_id, _Destination())
        key = question.transactional_id, question.producer_id
        before = to.waiting.get(key)
        if before is None:
            if len(to.waiting) >= self._questions_max:
                question.refuse(ErrorCode.NETWORK_EXCEPTION)
            else:
                to.waiting[key] = question
        elif before.epoch > question.epoch:
            question.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif before.epoch == question.epoch and before.add == question.add:
            for partitions, on_answer in question.askers:
                before.ask_also(partitions, on_answer)
        else:
            to.waiting[key] = question
            is_older = before.epoch < question.epoch
            before.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION)

    def ready(self) -> list[int]:
        """Return the brokers that may get a request now."""
        return [broker_id for broker_id, to in self._destinations.items() if to.waiting and not to.is_asked]

    def take(self, broker_id: int) -> list[Question]:
        """Begin a request to a broker, and return its questions, at least one. `done` must follow.

        A transactional id is asked about once, because an answer names nothing else. A question with more partitions
        than the limit is asked alone.
        """
        to = self._destinations[broker_id]
        taken: dict[str, Question] = {}
        room = self._partitions_max
        for key, question in to.waiting.items():
            if taken and len(question.partitions) > room:
                break
            if question.transactional_id not in taken:
                taken[key[0]] = question
                room -= len(question.partitions)
        for question in taken.values():
            del to.waiting[question.transactional_id, question.producer_id]
        to.is_asked = True
        return list(taken.values())

    def done(self, broker_id: int) -> None:
        """Note that the request to a broker has ended. Its questions are answered by the caller."""
        to = self._destinations[broker_id]
        to.is_asked = False
        if not to.waiting:
            del self._destinations[broker_id]

    @property
    def waiting(self) -> int:
        """Return the number of questions that wait."""
        return sum(len(to.waiting) for to in self._destinations.values())

    def all_waiting(self) -> Iterable[Question]:
        """Remove all questions that wait, and return them."""
        found = [question for to in self._destinations.values() for question in to.waiting.values()]
        for to in self._destinations.values():
            to.waiting.clear()
        return found
