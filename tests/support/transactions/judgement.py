"""Judges a history of transactions. Pure: the same function judges the simulation, real processes and the unit tests.

The rules of exactly-once:

- all records of a transaction are committed, or none, in every partition; and each is there once;
- what was answered as committed is committed; what was aborted, or never asked to end, is not;
- a read_committed client sees exactly the committed records, in order, and never passes an open transaction;
- a read_uncommitted client sees every record;
- each input of consume-transform-produce is processed once, and the group's offset moves with the outputs;
- no transaction stays open.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.support.transactions.history import (
    Attempt,
    End,
    History,
    Key,
    Reading,
    Seen,
    Transform,
    View,
    attempts_by_value,
    view_of,
)

_FAULTS_MAX = 20


def faults_of(history: History) -> list[str]:
    """Return the faults of a history, at most some of them. Empty for a correct one."""
    return [fault for fault, _ in zip(_faults(history), range(_FAULTS_MAX), strict=False)]


def _faults(history: History) -> Iterator[str]:
    views = {key: view_of(batches) for key, batches in history.logs.items()}
    for key, view in views.items():
        for producer_id, offset in view.open.items():
            yield f"{key}: the transaction of producer {producer_id} from offset {offset} on has not ended"
    yield from _faults_of_values(history, views)
    for attempt in history.attempts:
        yield from _faults_of_attempt(attempt, views)
    for reading in history.readings:
        yield from _faults_of_reading(reading, views.get(reading.key, View()))
    for transform in history.transforms:
        yield from _faults_of_transform(transform, views)


def _faults_of_values(history: History, views: Mapping[Key, View]) -> Iterator[str]:
    """Records that nobody has sent to the partition, and records that are committed twice."""
    known = attempts_by_value(history.attempts)
    for key, view in views.items():
        for seen in view.all:
            attempt = known.get(seen.value)
            if attempt is None or seen.value not in attempt.outputs.get(key, ()):
                yield f"{key}: nobody has sent {seen.value!r}, at offset {seen.offset}"
        for value, count in Counter(seen.value for seen in view.committed).items():
            if count > 1:
                yield f"{key}: {value!r} is committed {count} times"


def _committed_part(attempt: Attempt, views: Mapping[Key, View]) -> Mapping[Key, list[Seen]]:
    return {
        key: [seen for seen in views.get(key, View()).committed if seen.value in values]
        for key, values in ((key, set(values)) for key, values in attempt.outputs.items())
    }


def _faults_of_attempt(attempt: Attempt, views: Mapping[Key, View]) -> Iterator[str]:
    found = _committed_part(attempt, views)
    wanted = sum(len(values) for values in attempt.outputs.values())
    count = len({seen.value for part in found.values() for seen in part})
    if attempt.end is End.COMMITTED and count < wanted:
        yield f"{attempt.name}: was answered as committed, and {count} of its {wanted} records are"
    elif attempt.end in (End.ABORTED, End.OPEN) and count:
        yield f"{attempt.name}: {count} of its {wanted} records are committed although {attempt.end.value}"
    elif 0 < count < wanted:
        yield f"{attempt.name}: is torn, {count} of its {wanted} records are committed"
    for key, part in found.items():
        order = [seen.value for seen in part]
        if order != [value for value in attempt.outputs[key] if value in set(order)]:
            yield f"{attempt.name}: its records in {key} are in another order than they were sent"


def _faults_of_reading(reading: Reading, view: View) -> Iterator[str]:
    records = view.committed if reading.is_committed_only else view.all
    expected = [seen for seen in records if seen.offset < reading.position]
    if reading.seen == expected:
        return
    seen, wanted = set(reading.seen), set(expected)
    for record in reading.seen:
        if record not in wanted:
            yield f"{reading.name}: saw {record.value!r} at offset {record.offset}, which it must not"
            return
    for record in expected:
        if record not in seen:
            yield f"{reading.name}: passed offset {record.offset} and did not see {record.value!r}"
            return
    yield f"{reading.name}: saw records twice or out of order"


def _faults_of_transform(transform: Transform, views: Mapping[Key, View]) -> Iterator[str]:
    committed = [
        attempt
        for attempt in transform.attempts
        if attempt.end is End.COMMITTED or any(part for part in _committed_part(attempt, views).values())
    ]
    for offset, count in Counter(offset for attempt in committed for offset in attempt.consumed).items():
        if count > 1:
            yield f"{transform.group}: the input at offset {offset} was processed {count} times"
    furthest = max((attempt.next_offset for attempt in committed), default=0)
    if transform.committed_offset != furthest:
        found = transform.committed_offset
        yield f"{transform.group}: its committed offset is {found}, and its outputs are committed up to {furthest}"
    processed = {offset for attempt in committed for offset in attempt.consumed}
    for seen in views.get(transform.source, View()).committed:
        if seen.offset < furthest and seen.offset not in processed:
            yield f"{transform.group}: the input at offset {seen.offset} was not processed"
            return
