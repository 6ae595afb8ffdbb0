"""DescribeUserScramCredentials (50), version 0 (KIP-554): any node answers from its metadata.

Salts and keys are never shown.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, counted, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeUserScramCredentialsRequest
from broker_runtime.wire.versions import DESCRIBE_USER_SCRAM_CREDENTIALS


def handle(request: DescribeUserScramCredentialsRequest, call: Call, context: NodeContext) -> Steps[Fields]:
    """Describe the SCRAM credentials of the named users, or of all users if the request names none."""
    del call
    named = yield from counted(user.name for user in request.users or ())
    names = list(named or context.image.scram_credentials)
    results = yield from each(names, lambda name: _result(name, context, twice=named[name] > 1))
    return {"error_code": ErrorCode.NONE, "error_message": "", "results": results}


def _result(name: str, context: NodeContext, *, twice: bool) -> Fields:
    known = context.image.scram_credentials.get(name)
    code, text = ErrorCode.NONE, ""
    if twice:
        code, text = (
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    elif known is None:
        code = ErrorCode.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {name}"
    shown = known if known is not None and code is ErrorCode.NONE else {}
    infos = [{"mechanism": number, "iterations": item.iterations} for number, item in sorted(shown.items())]
    return {"user": name, "error_code": code, "error_message": text, "credential_infos": infos}


API = ApiSpec(key=DESCRIBE_USER_SCRAM_CREDENTIALS, name="DescribeUserScramCredentials", versions=(0, 0), handle=handle)
