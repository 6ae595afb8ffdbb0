"""Facts about an ended call, for observers: its client, the size of its answer, its error. Pure.

The `Call` itself has the API, its version, the times and how it ended. The functions here compute the other facts on
demand.
"""

from collections.abc import Mapping, Sequence

from broker_runtime.apis.request.call import Call, ClientSoftware
from broker_runtime.slicing.steps import Steps


def principal(call: Call) -> str:
    """Return the principal of the call's client, such as `User:alice`."""
    return str(call.connection.principal)


def client_software(call: Call) -> ClientSoftware | None:
    """Return the software of the call's client; None until the client has sent it, which old clients never do."""
    told = call.connection.state
    return told if isinstance(told, ClientSoftware) else None


def answer_bytes(call: Call) -> int:
    """Return the size of the answer with its size field; 0 if no answer is sent."""
    return sum(map(len, call.reply))


def error_code(call: Call) -> int:
    """Return one of the error codes in the answer; 0 without an error.

    A broker does not parse forwarded answers; the controller observes their errors.
    """
    return call.error or _error_in(call.fields)


def error_in_steps(answer: object) -> Steps[int]:
    """Return the error code of a long answer, in steps, before its fields are freed."""
    if isinstance(answer, Mapping):
        code = answer.get("error_code")
        if isinstance(code, int) and code:
            return int(code)
        return (yield from error_in_steps(list(answer.values())))
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes | bytearray | memoryview):
        for item in answer:
            if code := (yield from error_in_steps(item)):
                return code
        yield
    return 0


def _error_in(answer: object) -> int:
    if isinstance(answer, Mapping):
        code = answer.get("error_code")
        return int(code) if isinstance(code, int) and code else _error_in(list(answer.values()))
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes | bytearray | memoryview):
        return next((code for item in answer if (code := _error_in(item))), 0)
    return 0
