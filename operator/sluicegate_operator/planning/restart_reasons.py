"""What of a node cannot change while it runs, and so why it must be restarted.

A `NodeRevision` is made of the wanted configuration and travels with the node that was started with it (an annotation
of the pod, a file beside a process). Comparing the two says which keys changed, without the old values being kept.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReasonKind(StrEnum):
    """Also the reason of the Event."""

    CONFIG_CHANGED = "ConfigChanged"
    LISTENERS_CHANGED = "ListenersChanged"
    IMAGE_CHANGED = "ImageChanged"
    RESOURCES_CHANGED = "ResourcesChanged"
    POD_TEMPLATE_CHANGED = "PodTemplateChanged"
    RESTART_REQUESTED = "RestartRequested"
    """By a person, with `kubectl rollout restart`."""
    UNKNOWN_REVISION = "UnknownRevision"
    """The node does not say what it was started with: an older operator made it, or a hand took the annotation away."""


@dataclass(frozen=True, slots=True, order=True)
class RestartReason:
    """`keys` are the configuration keys that changed; `detail` is half a sentence."""

    kind: ReasonKind
    detail: str = ""
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else str(self.kind)


LISTENER_KEYS = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
"""They are the operator's own and change with the BrokerListeners. Brokers in pods are told while they run, and only
processes on a laptop are restarted for them."""
KEYS_SHOWN_MAX = 5
TIME_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class NodeRevision:
    """`keys` and `resources`, `template` are digests; `image` is the name of the image.

    `as_written` is the revision by the manifest's own spelling, which older operators gave to nodes. A node with either
    runs what is wanted, so an update of the operator restarts no node for its spelling.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    resources: str = ""
    template: str = ""
    as_written: "NodeRevision | None" = field(default=None, compare=False)

    def encode(self) -> str:
        """Stable, so that equal revisions are equal texts; about 30 bytes a key."""
        parts = {
            "image": self.image,
            "keys": dict(sorted(self.keys.items())),
            "resources": self.resources,
            "template": self.template,
        }
        return json.dumps(parts, separators=(",", ":"), sort_keys=True)


def decode_revision(text: str | None) -> NodeRevision | None:
    """None for what this version did not write."""
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
    """`properties` are the static ones, overrides included; `resources` and `template` anything that JSON can hold."""
    return NodeRevision(
        {key: digest(value) for key, value in properties.items()}, image, digest(resources), digest(template)
    )


def digest(value: object) -> str:
    """Short: a collision would hide one change among one node's few dozen keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def restart_reasons(running: NodeRevision | None, wanted: NodeRevision) -> tuple[RestartReason, ...]:
    """Empty when the node runs what is wanted."""
    if running is None:
        return (RestartReason(ReasonKind.UNKNOWN_REVISION, "it does not say what it was started with"),)
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
        # A new image or listener changes the template as well; alone it is a new version of the operator.
        reasons.append(RestartReason(ReasonKind.POD_TEMPLATE_CHANGED))
    return tuple(reasons)


def restart_requested(running_at: str | None, wanted_at: str) -> tuple[RestartReason, ...]:
    """The times of the last `kubectl rollout restart` that a node was made after, and of the last one of all; empty
    where there was none. One that was taken back is no reason."""
    if not wanted_at or running_at == wanted_at:
        return ()
    return (RestartReason(ReasonKind.RESTART_REQUESTED, f"kubectl rollout restart at {wanted_at[:TIME_SHOWN_MAX]}"),)


def _shown(keys: tuple[str, ...]) -> str:
    more = len(keys) - KEYS_SHOWN_MAX
    return ", ".join(keys[:KEYS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
