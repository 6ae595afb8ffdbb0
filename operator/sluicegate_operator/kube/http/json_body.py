"""JSON for requests to the API server that is also valid YAML, and parsers for its answers.

The API server reads an apply as YAML. YAML takes characters above U+FFFF unescaped, not as JSON's surrogate pairs; it
takes some other characters only escaped.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.kube.http.errors import KubeUnavailableError

SHOWN_MAX = 300
"""Number of characters of an answer that an error shows."""
_ESCAPED = re.compile("[\x7f-\uffff]")


def json_body(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def json_object(body: str | bytes, request: str) -> dict[str, Any]:
    """Return the object in an answer to `request`.

    Raises KubeUnavailableError for any other answer: it came from a proxy, not from the API server.
    """
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        shown = body if isinstance(body, str) else body.decode("utf-8", "replace")
        raise KubeUnavailableError(f"{request}: the response is not an object of the API server: {shown[:SHOWN_MAX]}")
    return found


def refusal_text(body: str) -> str:
    """Return the message in the answer to a refused request; the start of the answer if it has no message."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, str) and message else body[:SHOWN_MAX]
