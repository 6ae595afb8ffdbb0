"""What was applied last and how the API server has had it since: nothing is sent that would change nothing.

A child whose status alone has changed is as it was applied: controllers write those of StatefulSets and
PodDisruptionBudgets with each pod that comes.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

CHILDREN_MAX = 20_000
_APPLIED = ("labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp")
"""Of its metadata, beside what its generation tells of."""


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
        """Whether `manifest` was applied and nobody has written anything but a status of the object since."""
        return self._known.get(path) == (_digest(manifest), _version(found))


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _version(item: Mapping[str, Any]) -> str:
    """Kinds without a generation, as ConfigMaps and Services, are told by their resourceVersion."""
    meta = item["metadata"]
    if not (generation := meta.get("generation")):
        return str(meta.get("resourceVersion") or "")
    return _digest({"uid": meta.get("uid"), "generation": generation, **{key: meta.get(key) for key in _APPLIED}})
