"""The bytes of transactional ids' records are those of Apache Kafka."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.transactions.ids.codec import (
    DamagedTransactionError,
    decode,
    decoding,
    encode,
    encode_key,
    encoding,
)
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import INDEX_MAX, NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import TransactionState
from tests.support.requests.step_sizes import objects_of_a_step

_long, _int, _short = st.integers(-1, 2**63 - 1), st.integers(0, 2**31 - 1), st.integers(-1, 32_767)
_texts = st.text(st.characters(codec="utf-8"), max_size=50)
_places = st.frozensets(st.tuples(_texts, st.integers(0, 300) | st.just(INDEX_MAX)), max_size=6)
_partitions = _places.map(lambda places: PartitionSet.of(*places))
_with_partitions = st.builds(
    Transaction,
    _long,
    _short,
    _int,
    st.sampled_from([state for state in TransactionState if state]),
    _partitions,
    _long,
    _long,
    _long,
    _long,
    st.integers(0, 2),
    st.just(-1),
)
_empty = st.builds(
    Transaction,
    _long,
    _short,
    _int,
    st.just(TransactionState.EMPTY),
    st.just(NO_PARTITIONS),
    _long,
    _long,
    *[st.just(-1)] * 2,
    st.just(0),
    st.just(-1),
)
_records = st.builds(TransactionRecord, _texts, st.none() | _with_partitions | _empty)
ONGOING = Transaction(
    1,
    2,
    3,
    TransactionState.ONGOING,
    PartitionSet.of(("b", 1), ("a", 5), ("a", 4)),
    6,
    7,
    previous_producer_id=8,
    next_producer_id=9,
    client_version=2,
)


@given(_records)
def test_a_record_of_version_1_reads_as_it_was_written(record: TransactionRecord) -> None:
    assert decode(*encode(record, flexible=True)) == record


@given(_records)
def test_a_record_of_version_0_has_no_tagged_fields(record: TransactionRecord) -> None:
    found = record.transaction
    if found is not None:
        found = found._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode(*encode(record, flexible=False)) == record._replace(transaction=found)


def test_the_bytes_of_version_0() -> None:
    key, value = encode(TransactionRecord("id", ONGOING), flexible=False)
    assert key is not None
    assert key.hex(" ", -2) == "0000 0002 6964"
    assert value is not None
    assert (
        value.hex()
        == (
            "0000"  # version
            "0000000000000001"  # producer id
            "0002"  # epoch
            "00000003"  # timeout
            "01"  # Ongoing
            "00000002"  # topics
            "0001" + b"a".hex() + "00000002" + "00000004" + "00000005"
            "0001" + b"b".hex() + "00000001" + "00000001"
            "0000000000000006"  # last update
            "0000000000000007"  # start
        )
    )


def test_the_bytes_of_version_1() -> None:
    _, value = encode(TransactionRecord("id", ONGOING), flexible=True)
    assert value is not None
    assert (
        value.hex()
        == (
            "0001"  # version
            "0000000000000001" + "0002" + "00000003" + "01"
            "03"  # topics
            "02" + b"a".hex() + "03" + "00000004" + "00000005" + "00"
            "02" + b"b".hex() + "02" + "00000001" + "00"
            "0000000000000006" + "0000000000000007"
            "03"  # tagged fields
            "0008" + "0000000000000008"
            "0108" + "0000000000000009"
            "0202" + "0002"
        )
    )


def test_an_empty_transaction_has_null_partitions() -> None:
    transaction = Transaction(1, 0, 3, TransactionState.EMPTY, NO_PARTITIONS, 6)
    _, old = encode(TransactionRecord("id", transaction), flexible=False)
    _, new = encode(TransactionRecord("id", transaction), flexible=True)
    assert old is not None
    assert old[17:21] == b"\xff\xff\xff\xff"
    assert new is not None
    assert new[17:] == b"\x00" + b"\x00" * 7 + b"\x06" + b"\xff" * 8 + b"\x00"


def test_a_long_transaction_is_encoded_in_steps() -> None:
    many = ONGOING._replace(partitions=PartitionSet.of(*((f"topic-{number}", number) for number in range(2_000))))
    record = TransactionRecord("id", many)
    steps = encoding(record, flexible=True)
    assert not isinstance(steps, tuple)
    encoded = at_once(steps)
    assert encoded == encode(record, flexible=True)
    read = decoding(*encoded)
    assert not isinstance(read, TransactionRecord | None)
    assert at_once(read) == record


@pytest.mark.full
@pytest.mark.parametrize("topics", [1, 10_000])
def test_no_step_of_encoding_or_decoding_a_long_transaction_takes_long(topics: int) -> None:
    places = [(f"topic-{number % topics}", number // topics) for number in range(20_000)]
    record = TransactionRecord("id", ONGOING._replace(partitions=PartitionSet.of(*places)))
    written = encode(record, flexible=True)
    writing, reading = encoding(record, flexible=True), decoding(*written)
    assert not isinstance(writing, tuple)
    assert not isinstance(reading, TransactionRecord | None)
    assert objects_of_a_step(writing) < 5_000
    found: list[object] = []

    def read() -> Steps[None]:
        found.append((yield from reading))

    assert objects_of_a_step(read()) < 5_000


def test_a_topic_that_is_named_twice_has_all_its_partitions() -> None:
    key, value = encode(TransactionRecord("id", ONGOING), flexible=False)
    assert value is not None
    record = decode(key, value.replace(b"b", b"a"))
    assert record is not None
    assert record.transaction is not None
    assert record.transaction.partitions == PartitionSet.of(("a", 1), ("a", 4), ("a", 5))
    assert len(record.transaction.partitions) == 3


def test_an_impossible_number_of_a_partition_is_damage() -> None:
    key, value = encode(TransactionRecord("id", ONGOING), flexible=False)
    assert value is not None
    for number in (INDEX_MAX + 1, -1):
        with pytest.raises(DamagedTransactionError, match=f"the number {number}"):
            decode(key, value.replace((5).to_bytes(4), number.to_bytes(4, signed=True)))


def test_an_id_that_is_too_long_is_refused() -> None:
    assert len(encode_key("x" * 0x7FFF)) == 4 + 0x7FFF
    with pytest.raises(KafkaError) as refused:
        encode_key("x" * 0x8000)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_records_of_newer_versions_are_skipped() -> None:
    key, value = encode(TransactionRecord("id", ONGOING), flexible=True)
    assert key is not None
    assert value is not None
    assert decode(b"\x00\x01" + key[2:], value) is None
    assert decode(key, b"\x00\x02" + value[2:]) is None


@given(_records, st.data())
def test_damaged_bytes_are_told_or_read_as_another_record(record: TransactionRecord, data: st.DataObject) -> None:
    parts = [part or b"" for part in encode(record, flexible=data.draw(st.booleans()))]
    which = data.draw(st.integers(0, 1))
    if parts[which]:
        at = data.draw(st.integers(0, len(parts[which]) - 1))
        changed = bytearray(parts[which])
        changed[at] ^= 1 << data.draw(st.integers(0, 7))
        parts[which] = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    with suppress(DamagedTransactionError):
        decode(*parts)


def test_a_state_applies_records_in_order_and_keeps_the_ongoing_ones() -> None:
    state = TransactionsState()
    state.apply(TransactionRecord("a", ONGOING), 4)
    state.apply(TransactionRecord("b", ONGOING), 5)
    state.apply(TransactionRecord("a", ONGOING._replace(state=TransactionState.PREPARE_ABORT)), 9)
    assert (state.ongoing, state.next_offset) == ({"b"}, 10)
    state.apply(TransactionRecord("b", None), 10)
    assert (state.ongoing, set(state.transactions)) == (set(), {"a"})
    with pytest.raises(ValueError, match="record 3 of __transaction_state follows record 10"):
        state.apply(TransactionRecord("a", None), 3)
