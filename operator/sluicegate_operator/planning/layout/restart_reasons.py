"""Why nodes must be restarted: the part of their configuration that cannot change while they run.

A `NodeRevision` is made of the wanted configuration. It is stored with the node that was started with it: as an
annotation of the pod, or in a file beside a process. Comparing the two shows which keys changed, without storing the
old values.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReasonKind(StrEnum):
    """The kind of a reason for a restart. It is also the reason of the Event."""

    CONFIG_CHANGED = "ConfigChanged"
    LISTENERS_CHANGED = "ListenersChanged"
    IMAGE_CHANGED = "ImageChanged"
    RESOURCES_CHANGED = "ResourcesChanged"
    POD_TEMPLATE_CHANGED = "PodTemplateChanged"
    RESTART_REQUESTED = "RestartRequested"
    """A user requested the restart with `kubectl rollout restart`."""
    UNKNOWN_REVISION = "UnknownRevision"
    """The node has no revision: an older operator created it, or the annotation was removed."""


@dataclass(frozen=True, slots=True, order=True)
class RestartReason:
    """The reason why a node must be restarted.

    `keys` are the changed configuration keys; `detail` is half a sentence.
    """

    kind: ReasonKind
    detail: str = ""
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else str(self.kind)


LISTENER_KEYS = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
"""The keys that the operator derives from BrokerListeners.

Brokers in pods get them while they run; only processes on a laptop are restarted for them.
"""
KEYS_SHOWN_MAX = 5
TIME_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class NodeRevision:
    """The revision of a node.

    `keys`, `resources` and `template` are digests; `image` is the image's name.

    `as_written` is the revision in the manifest's own spelling, which older operators gave to nodes. A node with either
    revision is up to date, so an update of the operator restarts no node because of spelling.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    resources: str = ""
    template: str = ""
    as_written: "NodeRevision | None" = field(default=None, compare=False)

    def encode(self) -> str:
        """Return the revision as a text of about 30 bytes a key. Equal revisions are equal texts."""
        parts = {
            "image": self.image,
            "keys": dict(sorted(self.keys.items())),
            "resources": self.resources,
            "template": self.template,
        }
        return json.dumps(parts, separators=(",", ":"), sort_keys=True)


def decode_revision(text: str | None) -> NodeRevision | None:
    """Return the revision in a text; None for text that this version did not write."""
    try:
        parts = json.loads(text or "")
        keys, rest = parts["keys"], [parts[name] for name in ("image", "resources", "template")]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(keys, dict) or not all(isinstance(part, str) for part in (*keys.values(), *rest)):
        return None
    return NodeRevision(keys, *rest)


def node_revision(
    properties: Mapping[str, str], image: str = "", resources: object = None, template: object = None
) -> NodeRevision:
    """Return the revision of a node: digests by which a needed restart is found.

    `properties` are the static ones, overrides included; `resources` and `template` are anything that JSON can
    represent.
    """
    return NodeRevision(
        {key: digest(value) for key, value in properties.items()}, image, digest(resources), digest(template)
    )


def digest(value: object) -> str:
    """Return a short digest of a part of a node's revision.

    A collision would hide one change among one node's few dozen keys.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def restart_reasons(running: NodeRevision | None, wanted: NodeRevision) -> tuple[RestartReason, ...]:
    """Return why the node must restart; empty for an up-to-date node."""
    if running is None:
        return (RestartReason(ReasonKind.UNKNOWN_REVISION, "the configuration that it was started with is unknown"),)
    spellings = [wanted] if wanted.as_written is None else [wanted, wanted.as_written]
    keys = {*running.keys, *(key for spelling in spellings for key in spelling.keys)}
    changed = sorted(
        key for key in keys if running.keys.get(key) not in [spelling.keys.get(key) for spelling in spellings]
    )
    reasons = []
    if config := tuple(key for key in changed if key not in LISTENER_KEYS):
        reasons.append(RestartReason(ReasonKind.CONFIG_CHANGED, _shown(config), config))
    if listeners := tuple(key for key in changed if key in LISTENER_KEYS):
        reasons.append(RestartReason(ReasonKind.LISTENERS_CHANGED, keys=listeners))
    if running.image not in [spelling.image for spelling in spellings]:
        reasons.append(RestartReason(ReasonKind.IMAGE_CHANGED, f"{running.image} to {wanted.image}"))
    if running.resources not in [spelling.resources for spelling in spellings]:
        reasons.append(RestartReason(ReasonKind.RESOURCES_CHANGED))
    if not reasons and running.template not in [spelling.template for spelling in spellings]:
        # A new image or listener changes the template as well; a change of the template alone is a new operator
        # version.
        reasons.append(RestartReason(ReasonKind.POD_TEMPLATE_CHANGED))
    return tuple(reasons)


def restart_requested(running_at: str | None, wanted_at: str) -> tuple[RestartReason, ...]:
    """Return the reason if `kubectl rollout restart` was used after the node was created.

    `running_at` is the time of the restart request that the node was created with, `wanted_at` that of the last one;
    empty without a request. A request that was removed gives no reason.
    """
    if not wanted_at or running_at == wanted_at:
        return ()
    return (RestartReason(ReasonKind.RESTART_REQUESTED, f"kubectl rollout restart at {wanted_at[:TIME_SHOWN_MAX]}"),)


def _shown(keys: tuple[str, ...]) -> str:
    more = len(keys) - KEYS_SHOWN_MAX
    return ", ".join(keys[:KEYS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
