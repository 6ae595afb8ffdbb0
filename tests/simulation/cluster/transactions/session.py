"""One instance of a transactional producer, at the level of the protocol.

It speaks transactions V1 (KIP-98, KIP-360) or V2 (KIP-890), retries like Kafka's own clients, and has one request in
flight.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from tests.simulation.cluster.connection import ClusterView, Key, Unanswered
from tests.simulation.cluster.members.coordinator import Coordinator
from tests.support.transactions.history import End

_PRODUCE_TIMEOUT_MS = 2_000
_VERSIONS: Mapping[int, Mapping[int, int]] = {
    1: {PRODUCE: 11, TXN_OFFSET_COMMIT: 3, END_TXN: 3},
    2: {PRODUCE: 12, TXN_OFFSET_COMMIT: 5, END_TXN: 5},
}
"""Versions of requests, by the version of the transaction protocol."""
_RETRIED = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
_UNSURE = frozenset((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT))
"""Codes after which the coordinator may yet find the end of the transaction in its log."""
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_ABORTABLE = (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE)


class Fenced(Exception):  # noqa: N818 - what happened, and usual
    """Another instance has taken over the transactional id, or the coordinator has ended the transaction."""


class MustAbort(Exception):  # noqa: N818 - what happened, and usual
    """The transaction can only be aborted."""


class ProducerSession:
    """A transactional producer from its first InitProducerId until it is fenced or given up."""

    def __init__(
        self,
        transactional_id: str,
        view: ClusterView,
        wall_ms: Callable[[], int],
        wrong: Callable[[str], None],
        *,
        version: int,
        timeout_ms: int,
    ) -> None:
        """`version` is the one of the transaction protocol: 1 or 2."""
        self._id = transactional_id
        self._view = view
        self._wall_ms = wall_ms
        self._wrong = wrong
        self._version = version
        self._versions = _VERSIONS[version]
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(view, transactional_id, key_type=1)
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[Key, int] = {}
        self._added: set[Key] = set()
        self._groups: dict[str, Coordinator] = {}
        self._is_empty = True
        self._is_unsure = False
        """Whether the outcome of a batch of this transaction is unknown: the next one needs another epoch (KIP-360)."""

    async def begin(self) -> None:
        """Take over the transactional id: fence earlier instances, and have their transaction aborted."""
        self._producer_id, self._epoch = -1, -1
        await self._init()

    async def _init(self) -> None:
        def content() -> Fields:
            return {
                "transactional_id": self._id,
                "transaction_timeout": self._timeout_ms,
                "producer_id": self._producer_id,
                "producer_epoch": self._epoch,
            }

        answer = await self._ask(INIT_PRODUCER_ID, 4, content, _code)
        self._producer_id, self._epoch = int(answer.producer_id), int(answer.producer_epoch)
        self._sequences.clear()
        self._is_unsure = False

    async def send(self, key: Key, values: Sequence[bytes]) -> None:
        """Write records in the transaction, and return once they are acknowledged. Raises Fenced and MustAbort."""
        if self._version == 1 and key not in self._added:
            await self._ask(ADD_PARTITIONS_TO_TXN, 3, lambda: self._named([key]), _first_code)
            self._added.add(key)
        self._is_empty = False
        while True:
            await self._view.leader_known(key)
            code = await self._produce(key, values)
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._sequences[key] = self._sequences.get(key, 0) + len(values)
                return
            self._is_unsure = True
            self._check(PRODUCE, code)
            self._view.leaders.pop(key, None)
            await self._pause()

    async def _produce(self, key: Key, values: Sequence[bytes]) -> ErrorCode:
        stamp = ProducerStamp(self._producer_id, self._epoch, self._sequences.get(key, 0))
        records = encode_batch([(None, value) for value in values], self._wall_ms(), stamp, attributes=TRANSACTIONAL)
        content = {
            "transactional_id": self._id,
            "acks": -1,
            "timeout": _PRODUCE_TIMEOUT_MS,
            "topic_data": [{"name": key[0], "partition_data": [{"index": key[1], "records": records}]}],
        }
        try:
            answer, _ = await self._view.ask_leader(key, PRODUCE, self._versions[PRODUCE], content)
        except Unanswered:
            return ErrorCode.NETWORK_EXCEPTION
        return ErrorCode(int(answer.responses[0].partition_responses[0].error_code))

    async def send_offset(self, group: str, key: Key, offset: int) -> None:
        """Commit the group's offset in the transaction. Raises Fenced and MustAbort."""
        if self._version == 1:
            await self._ask(ADD_OFFSETS_TO_TXN, 3, lambda: {**self._stamp(), "group_id": group}, _code)
        self._is_empty = False
        coordinator = self._groups.setdefault(group, Coordinator(self._view, group))
        part = {
            "partition_index": key[1],
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": None,
        }
        topics = [{"name": key[0], "partitions": [part]}]

        def content() -> Fields:
            stamp = {**self._stamp(), "generation_id": -1, "member_id": "", "group_instance_id": None}
            return {**stamp, "group_id": group, "topics": topics}

        await self._ask(
            TXN_OFFSET_COMMIT, self._versions[TXN_OFFSET_COMMIT], content, _code_of_offset, coordinator=coordinator
        )

    async def abort(self) -> None:
        """Abort the transaction, and be ready for the next one. Raises Fenced."""
        if not self._is_empty:
            _, is_fenced = await self._end(committed=False)
            if is_fenced:
                raise Fenced
        if self._is_unsure and self._version == 1:
            await self._init()

    async def commit(self) -> tuple[End, bool]:
        """Commit the transaction. Returns what is known of its end, and whether this instance can go on."""
        if self._is_empty:
            return End.COMMITTED, True
        end, is_fenced = await self._end(committed=True)
        return end, not is_fenced

    async def _end(self, *, committed: bool) -> tuple[End, bool]:
        """Ask for the end until a broker tells it. Returns it, and whether this instance is fenced."""
        refused = End.ABORTED
        while True:
            code, answer = ErrorCode.NETWORK_EXCEPTION, None
            try:
                content = {**self._stamp(), "committed": committed}
                answer = await self._coordinator.ask(END_TXN, self._versions[END_TXN], content)
                code = _code(answer)
            except Unanswered:
                refused = End.COMMIT_ASKED
            if code == ErrorCode.NONE:
                self._ended(answer)
                return (End.COMMITTED if committed else End.ABORTED), False
            if code in _FENCED or (code == ErrorCode.INVALID_TXN_STATE and self._version > 1 and committed):
                return (refused if committed else End.ABORTED), True
            if code not in _RETRIED:
                self._wrong(f"{self._id}: EndTxn({committed}) at epoch {self._epoch} was refused with {code.name}")
                return End.COMMIT_ASKED if committed else End.ABORTED, True
            if code in _UNSURE:
                refused = End.COMMIT_ASKED
            self._coordinator.note(code)
            await self._pause()

    def _ended(self, answer: Entity | None) -> None:
        self._added.clear()
        self._is_empty = True
        if self._version > 1 and answer is not None:
            self._producer_id, self._epoch = int(answer.producer_id), int(answer.producer_epoch)
            self._sequences.clear()

    async def _ask(
        self,
        api_key: int,
        version: int,
        content: Callable[[], Fields],
        code_of: Callable[[Entity], ErrorCode],
        *,
        coordinator: Coordinator | None = None,
    ) -> Entity:
        """Ask a coordinator until it accepts the request. Raises Fenced and MustAbort."""
        asked = coordinator or self._coordinator
        while True:
            try:
                answer = await asked.ask(api_key, version, content())
            except Unanswered:
                await self._pause()
                continue
            code = code_of(answer)
            if code == ErrorCode.NONE:
                return answer
            self._check(api_key, code)
            asked.note(code)
            await self._pause()

    def _check(self, api_key: int, code: ErrorCode) -> None:
        """Raise Fenced or MustAbort for an error code after which a request is not retried."""
        if code in _RETRIED:
            return
        if code == ErrorCode.INVALID_PRODUCER_EPOCH and api_key == PRODUCE:
            raise MustAbort
        if code in _FENCED:
            raise Fenced
        if code not in _ABORTABLE:
            self._wrong(f"{self._id}: request {api_key} at epoch {self._epoch} was refused with {code.name}")
        raise MustAbort

    def _stamp(self) -> dict[str, object]:
        return {
            "transactional_id": self._id,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
        }

    def _named(self, keys: Sequence[Key]) -> Fields:
        topics = [{"name": topic, "partitions": (index,)} for topic, index in keys]
        return {**{f"v3_and_below_{name}": each for name, each in self._stamp().items()}, "v3_and_below_topics": topics}

    async def _pause(self) -> None:
        await asyncio.sleep(self._view.random.uniform(0.02, 0.1))


def _code(answer: Entity) -> ErrorCode:
    return ErrorCode(int(answer.error_code))


def _first_code(answer: Entity) -> ErrorCode:
    """Return the code of an AddPartitionsToTxn with one partition."""
    return ErrorCode(int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code))


def _code_of_offset(answer: Entity) -> ErrorCode:
    return ErrorCode(int(answer.topics[0].partitions[0].error_code))
