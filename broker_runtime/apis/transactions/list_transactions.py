"""ListTransactions (66), versions 0 to 2: the transactional ids that this broker coordinates.

Filters are by state and producer id (KIP-664), from version 1 by duration (KIP-994), and from version 2 by a pattern of
the whole id (KIP-1152). While the broker loads some of its ids, it returns COORDINATOR_LOAD_IN_PROGRESS: without an
error, tools would take the list for complete.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.config.declaring.patterns_on_demand import compile_pattern
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, chosen, gathered, let_go
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.states import TransactionState
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ListTransactionsRequest
from broker_runtime.wire.versions import LIST_TRANSACTIONS

if TYPE_CHECKING:
    from broker_runtime.config.declaring.patterns import Pattern

_DURATION_SINCE, _PATTERN_SINCE = 1, 2
_BY_NAME = {state.shown: state for state in TransactionState}
_IDS_OF_A_STEP = 32
_ID_BYTES = 20
"""Size of one id in the response, without its texts."""
_WORK_MAX = 300_000_000
"""Limit for the characters of all ids times those of the pattern, with which a thread needs a few seconds at most."""
Filter = Callable[[str, Transaction], bool]
Answer = dict[str, object]


def handle(
    request: ListTransactionsRequest, call: Call, context: BrokerContext
) -> Steps[Fields | Awaitable[Fields | Steps[Fields]]]:
    unknown = yield from chosen(request.state_filters, lambda name: name not in _BY_NAME)
    answer: Answer = {"error_code": ErrorCode.NONE, "unknown_state_filters": unknown, "transaction_states": ()}
    try:
        pattern = _pattern_of(request, call)
    except KafkaError as error:
        return answer | {"error_code": error.code}
    if context.transactions.is_loading():
        return answer | {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    filters = yield from _filters(request, call, context)
    listed, characters = yield from _listed(filters, call, context)
    if pattern is None:
        return answer | {"transaction_states": listed}
    if characters * pattern.size > _WORK_MAX:
        return answer | {"error_code": ErrorCode.INVALID_REGULAR_EXPRESSION}
    return _matched(answer, listed, pattern, context)


def _listed(filters: list[Filter], call: Call, context: BrokerContext) -> Steps[tuple[list[Answer], int]]:
    """Return the transactions that pass the filters, and the number of characters of their ids."""
    access, listed, characters = call.access, list[Answer](), 0
    for number, (transactional_id, found) in enumerate(_all(context)):
        if all(passes(transactional_id, found) for passes in filters) and (
            access is None or access.transactional_id(transactional_id, hides=True)
        ):
            characters += len(transactional_id)
            listed.append(
                {
                    "transactional_id": transactional_id,
                    "producer_id": found.producer_id,
                    "transaction_state": found.state.shown,
                }
            )
            call.completion.limits.check_response(characters + _ID_BYTES * len(listed))
        if number % _IDS_OF_A_STEP == 0:
            yield
    return listed, characters


def _all(context: BrokerContext) -> Iterator[tuple[str, Transaction]]:
    """Yield all transactions, which may change meanwhile."""
    for state in list(context.transactions.states()):
        transactions = state.transactions
        for transactional_id in list(transactions):
            found = transactions.get(transactional_id)
            if found is not None:
                yield transactional_id, found


async def _matched(
    answer: Answer, listed: list[Answer], pattern: "Pattern", context: BrokerContext
) -> Fields | Steps[Fields]:
    """Return the answer with the listed ids that the pattern matches.

    Another thread matches them: one long id with an unfavourable pattern takes a tenth of a second.
    """
    try:
        matches = await context.offload(lambda: [pattern.matches(str(each["transactional_id"])) for each in listed])
    except KafkaError as error:
        return answer | {"error_code": error.code}
    return _chosen(answer, listed, matches)


def _chosen(answer: Answer, listed: list[Answer], matches: list[bool]) -> Steps[Fields]:
    pairs = yield from chosen(zip(listed, matches, strict=True), lambda pair: pair[1])
    yield from let_go(listed)
    return answer | {"transaction_states": [each for each, _ in pairs]}


def _filters(request: ListTransactionsRequest, call: Call, context: BrokerContext) -> Steps[list[Filter]]:
    """Return the filters of the request, without its pattern."""
    found: list[Filter] = []
    if request.state_filters:
        states = yield from gathered(_BY_NAME.get(name) for name in request.state_filters)
        found.append(lambda _, transaction: transaction.state in states)
    if request.producer_id_filters:
        producer_ids = yield from gathered(request.producer_id_filters)
        found.append(lambda _, transaction: transaction.producer_id in producer_ids)
    if call.version >= _DURATION_SINCE and request.duration_filter >= 0:
        began_before_ms = context.clock.wall_ms() - request.duration_filter
        found.append(lambda _, transaction: transaction.started_ms < began_before_ms)
    return found


def _pattern_of(request: ListTransactionsRequest, call: Call) -> "Pattern | None":
    """Return the pattern of the request, None without one. Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if call.version < _PATTERN_SINCE or not request.transactional_id_pattern:
        return None
    try:
        return compile_pattern(request.transactional_id_pattern)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


API = ApiSpec(key=LIST_TRANSACTIONS, name="ListTransactions", versions=(0, 2), handle=handle)
