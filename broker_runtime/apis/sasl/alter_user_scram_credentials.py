"""AlterUserScramCredentials (51), version 0 (KIP-554), with one result for each user."""

from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.clients.scram_credentials import (
    Change,
    Deletion,
    Outcome,
    Upsertion,
    alter_scram_credentials,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, distinct, each, let_go
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AlterUserScramCredentialsRequest
from broker_runtime.wire.versions import ALTER_USER_SCRAM_CREDENTIALS


async def handle(
    request: AlterUserScramCredentialsRequest, call: Call, context: ControllerContext
) -> Fields | Steps[Fields]:
    changes = await call.completion.slices.finish(_changes(request))
    if call.access is not None and not call.access.cluster():
        return _refused(changes, denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    users_max = context.settings.config.sluicegate_scram_users_max
    try:
        outcomes = await context.controller.submit(lambda image: alter_scram_credentials(changes, image, users_max))
    except KafkaError as error:
        return _refused(changes, error)
    return _answer(outcomes, changes)


def _changes(request: AlterUserScramCredentialsRequest) -> Steps[list[Change]]:
    """Return the changes in the order in which they are checked: deletions come first."""
    changes: list[Change] = []
    changes += yield from each(request.deletions, lambda one: Deletion(one.name, one.mechanism))
    changes += yield from each(
        request.upsertions,
        lambda one: Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password),
    )
    return changes


def _refused(changes: list[Change], error: KafkaError) -> Steps[Fields]:
    names = yield from distinct(change.name for change in changes)
    outcomes: list[Outcome] = []
    outcomes += yield from each(names, lambda name: (name, error))
    return (yield from _answer(outcomes, changes))


def _answer(outcomes: list[Outcome], changes: list[Change]) -> Steps[Fields]:
    results = yield from each(outcomes, _result)
    yield from let_go(outcomes)
    yield from let_go(changes)
    return {"results": results}


def _result(outcome: Outcome) -> Fields:
    name, error = outcome
    return {
        "user": name,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


API = ApiSpec(key=ALTER_USER_SCRAM_CREDENTIALS, name="AlterUserScramCredentials", versions=(0, 0), handle=handle)
