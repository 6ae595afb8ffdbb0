"""Objects in requests to the API server, as JSON that YAML reads as well, and objects in its answers.

What is applied is read as YAML there, which knows the characters beyond 16 bits as they are and not, as JSON does, as
two escapes; others it knows escaped only.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.kube.errors import KubeUnavailableError

SHOWN_MAX = 300
"""Characters of an answer that an error shows."""
_ESCAPED = re.compile("[\x7f-\uffff]")


def json_body(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def json_object(body: str | bytes, request: str) -> dict[str, Any]:
    """Return the object in an answer to `request`. Raises KubeUnavailableError for any other answer: a proxy gave it,
    and not the API server."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        shown = body if isinstance(body, str) else body.decode("utf-8", "replace")
        raise KubeUnavailableError(f"{request}: the answer is not an object of the API server: {shown[:SHOWN_MAX]}")
    return found


def refusal_text(body: str) -> str:
    """Return the message in the answer to a request that was refused; the answer itself if it has no message."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, str) and message else body[:SHOWN_MAX]
