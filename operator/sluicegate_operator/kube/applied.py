"""What was applied last and how the API server has had it since: nothing is sent that would change nothing."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

CHILDREN_MAX = 20_000


class AppliedChildren:
    """By path. Soft state: a new process applies everything once. The oldest are forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def note(self, path: str, manifest: Mapping[str, Any], applied: Mapping[str, Any]) -> None:
        self._known.pop(path, None)
        self._known[path] = (_digest(manifest), _version(applied))
        if len(self._known) > CHILDREN_MAX:
            self._known.popitem(last=False)

    def holds(self, path: str, manifest: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
        """Whether `manifest` was applied and nobody has written anything of the object since."""
        return self._known.get(path) == (_digest(manifest), _version(found))


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _version(item: Mapping[str, Any]) -> str:
    version: str = item["metadata"].get("resourceVersion") or ""
    return version
