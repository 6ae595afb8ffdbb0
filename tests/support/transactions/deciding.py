"""A coordinator of transactions without a log: decisions are applied at once. For unit tests."""

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from broker_runtime.coordination.seam import Deciding, in_one_go
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.transactions.decisions.adding import add_partitions
from broker_runtime.transactions.decisions.ending import EndRequest, complete, end_transaction
from broker_runtime.transactions.decisions.producers import InitRequest, init_producer
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import PREPARED

T = TypeVar("T")

ID = "payments"
ORDERS = ("orders", 0)


class FakeEnvironment:
    """The environment of decisions with a clock and producer ids that a test controls."""

    def __init__(self) -> None:
        self.transaction_version = 2
        self.wall_ms = 1_000
        self.has_ids = True
        self.ids_max = 10_000
        self._ids = count(4_000)

    def now_ms(self) -> int:
        return self.wall_ms

    def take_producer_id(self) -> int:
        if not self.has_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        return next(self._ids)


class DecidingCoordinator:
    """The state of one partition of `__transaction_state`, and the decisions on it."""

    def __init__(self) -> None:
        self.state = TransactionsState()
        self.environment = FakeEnvironment()
        self.written: list[TransactionRecord] = []

    @property
    def transaction(self) -> Transaction:
        return self.state.transactions[ID]

    def put(self, transaction: Transaction) -> None:
        self.state.apply(TransactionRecord(ID, transaction), self.state.next_offset)

    def decide(self, decision: Callable[..., Deciding[TransactionRecord, T]], *arguments: Any) -> T:
        records, answer = in_one_go(decision(self.state, self.environment, *arguments))
        for record in records:
            self.state.apply(record, self.state.next_offset)
        self.written += records
        return answer

    def init(self, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> tuple[int, int, ErrorCode]:
        return tuple(self.decide(init_producer, InitRequest(ID, timeout_ms, producer_id, epoch)))  # type: ignore[return-value]

    def add(self, *partitions: tuple[str, int], epoch: int | None = None, version: int = 0) -> None:
        before = self.transaction
        wanted = before.producer_epoch if epoch is None else epoch
        self.decide(add_partitions, ID, before.producer_id, wanted, partitions or (ORDERS,), version)

    def end(
        self, is_commit: bool, *, version: int, producer_id: int | None = None, epoch: int | None = None
    ) -> tuple[int, int]:
        before = self.transaction
        request = EndRequest(
            ID,
            before.producer_id if producer_id is None else producer_id,
            before.producer_epoch if epoch is None else epoch,
            is_commit,
            version,
        )
        return tuple(self.decide(end_transaction, request))  # type: ignore[return-value]

    def complete(self) -> None:
        assert self.transaction.state in PREPARED
        self.decide(complete, ID, self.transaction)

    def code(self, act: Callable[..., object], *arguments: Any, **named: Any) -> ErrorCode:
        """Return the code with which `act` is refused; NONE if it is not refused. A refusal writes nothing."""
        before = len(self.written)
        try:
            act(*arguments, **named)
        except KafkaError as error:
            assert len(self.written) == before
            return error.code
        return ErrorCode.NONE
