"""The last applied manifest of each object, and the object's version after it.

An apply that would change nothing is not sent. A child of which only the status changed counts as unchanged:
controllers write the status of StatefulSets and PodDisruptionBudgets whenever a pod starts.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

CHILDREN_MAX = 20_000
_APPLIED = ("labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp")
"""Metadata fields that are compared in addition to the generation, which they do not change."""


class AppliedChildren:
    """The digests of applied manifests by path.

    Soft state: a new process applies everything once. The oldest entry is evicted first.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def note(self, path: str, manifest: Mapping[str, Any], applied: Mapping[str, Any]) -> None:
        self._known.pop(path, None)
        self._known[path] = (_digest(manifest), _version(applied))
        if len(self._known) > CHILDREN_MAX:
            self._known.popitem(last=False)

    def is_current(self, path: str, manifest: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
        """Return whether `manifest` was applied last, and only the object's status has been written since."""
        return self._known.get(path) == (_digest(manifest), _version(found))


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _version(item: Mapping[str, Any]) -> str:
    """Return the object's version.

    Kinds without a generation, such as ConfigMaps and Services, use their resourceVersion.
    """
    meta = item["metadata"]
    if not (generation := meta.get("generation")):
        return str(meta.get("resourceVersion") or "")
    return _digest({"uid": meta.get("uid"), "generation": generation, **{key: meta.get(key) for key in _APPLIED}})
