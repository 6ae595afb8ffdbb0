"""What an observer can find out of a call that has ended: who asked, how large the answer was, what went wrong. Pure.

The API, its version, the times and the way in which it ended stand in the `Call` itself. Nothing here is worked out
before it is asked for.
"""

from collections.abc import Mapping, Sequence

from broker_runtime.apis.call import Call, ClientSoftware
from broker_runtime.steps import Steps

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's name for a client that has not said who it is."""


def principal(call: Call) -> str:
    """There is no authentication yet."""
    del call
    return ANONYMOUS


def client_software(call: Call) -> ClientSoftware | None:
    """None until the client has told it, which old ones never do."""
    told = call.connection.state
    return told if isinstance(told, ClientSoftware) else None


def answer_bytes(call: Call) -> int:
    """With the size field; 0 when nothing is sent."""
    return sum(map(len, call.reply))


def error_code(call: Call) -> int:
    """One of the error codes in the answer, 0 when there is none.

    What a broker has forwarded it does not look into: of that the controller knows.
    """
    return call.error or _error_in(call.fields)


def error_in_steps(answer: object) -> Steps[int]:
    """The same of a long answer, before it is let go of."""
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
