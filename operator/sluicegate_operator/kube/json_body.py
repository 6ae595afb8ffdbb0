"""An object as the API server is sent it: JSON that YAML reads as well.

What is applied is read as YAML there, which knows the characters beyond 16 bits as they are and not, as JSON does, as
two escapes; others it knows escaped only.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_ESCAPED = re.compile("[\x7f-\uffff]")


def json_body(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
