"""One request that changes something: its rows, and the outcome of each. Pure.

The rows are made when the request has been read, because they need the old values. The outcomes follow from the answer.
Both are steps, and both are bounded: of a request that names more than `rows_max` rows, the rest is counted.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker_runtime.apis.request.call import Call, Ending
from broker_runtime.errors import ProtocolError
from broker_runtime.observers.audit_log.changes.answered import answer_of, outcomes, whole_error
from broker_runtime.observers.audit_log.changes.asked import EVERYTHING, Identity, Row, Seen, resources
from broker_runtime.observers.view import Struct
from broker_runtime.slicing.steps import Steps

_RESOURCES_OF_A_STEP: Final = 4
_COUNTED_OF_A_STEP: Final = 64
_ROWS_OF_A_STEP: Final = 8


class ChangeLimits(NamedTuple):
    """Limits of the rows of one request: their number, and the characters of all their texts together."""

    rows_max: int = 1000
    chars_max: int = 131_072


class ToldRow(NamedTuple):
    """A row of the audit log about a change, with the change's outcome. `error_code` is None for an unknown outcome.

    `further` is None for a row about one change. Otherwise `further` is the number of resources of the request, or of
    keys of one resource, that have no row of their own: this row counts them.
    """

    row: Row
    error_code: int | None
    further: int | None


class NotedChange:
    """The changes that one request asks for, as the audit log records them.

    Call `read` first, then `look_through` with the answer, then `told`.
    """

    def __init__(self, limits: ChangeLimits, seen: Seen) -> None:
        self._limits = limits
        self._seen = seen
        self._rows: list[tuple[Identity, Row, int | None]] = []
        self._chars = 0
        self._kind: str | None = None
        self._further = 0
        """Resources of the request that have no row."""
        self._is_open = False
        """Whether only the answer tells how many resources there are."""
        self._codes: dict[Identity, int] = {}
        self._further_codes: Counter[int] = Counter()
        self._whole: int | None = None
        self.validate_only: bool | None = None
        self.error_code: int | None = None
        """The error code of the request, or the first one of a resource; None if the answer was not looked through."""

    @property
    def events(self) -> int:
        """Return at least the number of rows that `told` yields."""
        return len(self._rows) + (bool(self._further) or self._is_open)

    def read(self, api_key: int, request: Any, further: int = 0) -> Steps[None]:
        """Make the audit log's rows about the changes that a request asks for.

        At least `further` resources have not been read.
        """
        self.validate_only = getattr(request, "validate_only", None)
        self._further, self._is_open = further, further > 0
        for number, (identity, rows) in enumerate(resources(api_key, request, self._seen), 1):
            if self._is_full:
                self._further += 1
                if number % _COUNTED_OF_A_STEP == 0:
                    yield
                continue
            yield from self._take(identity, rows)
            if number % _RESOURCES_OF_A_STEP == 0:
                yield

    @property
    def _is_full(self) -> bool:
        return len(self._rows) >= self._limits.rows_max or self._chars >= self._limits.chars_max

    def _take(self, identity: Identity, rows: Iterator[Row]) -> Steps[None]:
        left, row = 0, None
        self._is_open = self._is_open or identity is EVERYTHING
        for number, row in enumerate(rows, 1):
            if self._is_full:
                left += 1
            else:
                self._rows.append((identity, row, None))
                self._chars += sum(len(text) for text in row if text is not None)
                self._kind = row.resource_type
            if number % _ROWS_OF_A_STEP == 0:
                yield
        if left and row is not None:
            rest = Row(row.resource_type, row.resource_name, None, row.operation, None, None, row.topic)
            self._rows.append((identity, rest, left))

    def look_through(self, call: Call) -> Steps[None]:
        """Find the outcomes in the answer of a call that has ended. Without an answer the outcomes stay unknown."""
        if call.ending is not Ending.ANSWERED or not call.reply:
            return
        told = {identity for identity, _, _ in self._rows}
        codes: dict[Identity, int] = {}
        further: Counter[int] = Counter()
        try:
            answer = yield from answer_of(call)
            yield
            whole = whole_error(answer)
            first = yield from _collect(call.api.key, answer, told, codes, further)
        except ProtocolError:
            # A controller of another release has answered, or the answer is damaged: the outcomes stay unknown.
            return
        self._codes, self._further_codes, self._whole, self.error_code = codes, further, whole, whole or first

    def told(self) -> Iterator[ToldRow]:
        """Yield each row with its outcome, and then the resources without a row, by error code."""
        for identity, row, further in self._rows:
            yield ToldRow(row, self._outcome(identity), further)
        left = self._further
        rest = Row(self._kind or "unknown", None, None, "several", None, None, None)
        for code, count in sorted(self._further_codes.items()):
            shown = count if self._is_open else min(count, left)
            if shown:
                left -= shown
                yield ToldRow(rest, code, shown)
        if left > 0:
            yield ToldRow(rest, self._whole or None, left)

    def _outcome(self, identity: Identity) -> int | None:
        """Return the error code of a resource; None if it is unknown, also because the answer names only others."""
        if self._whole is None or identity in self._codes:
            return self._codes.get(identity)
        names_others = bool(self._codes or self._further_codes) and identity is not EVERYTHING
        return None if names_others and not self._whole else self._whole


def _collect(
    api_key: int, answer: Struct, told: set[Identity], codes: dict[Identity, int], further: Counter[int]
) -> Steps[int]:
    """Note the error codes of resources with a row in `codes`, and count the others. Return the first error code."""
    first = 0
    for names, code in outcomes(api_key, answer):
        error = int(code)
        first = first or error
        known = [name for name in names if name in told]
        codes.update(dict.fromkeys(known, error))
        if not known:
            further[error] += 1
        yield
    return first
