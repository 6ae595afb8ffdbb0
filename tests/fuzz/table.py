"""All targets, by name. A module is imported for its targets only, because a campaign instruments what it imports."""

from collections.abc import Mapping, Sequence
from importlib import import_module

from tests.fuzz.target import AnyTarget

_MODULES: Mapping[str, Sequence[str]] = {
    "requests": ("request", "node-answer", "node"),
    "network": ("proxy-header", "http-request", "envelope", "enveloped-answer", "node-link", "leader-answer"),
    "records": ("produced-batch", "fetched-batches", "replicated-batches", "compression"),
    "sasl": (
        "sasl-plain",
        "scram-server",
        "scram-client",
        "oauthbearer",
        "token",
        "token-parts",
        "key-set",
        "sasl-frame",
        "first-credentials",
    ),
    "texts": ("pem", "certificate", "mapping-rules", "subject", "properties", "login-module", "addresses"),
    "metadata": ("metadata-record", "metadata-history", "metadata-snapshot"),
    "storage": ("log-folder", "offset-checkpoint", "partition-metadata", "leader-epochs", "producer-snapshot"),
    "groups": ("group-record", "member-metadata", "topic-count", "push-frame", "push-partition"),
    "audit": ("audit-spool", "audit-segment", "audit-manifest", "audit-plan"),
    "clients": ("admin-reply", "admin-stream", "consumer-answer"),
}
NAMES: Sequence[str] = tuple(name for names in _MODULES.values() for name in names)
PLANTED = "planted-fault"
"""A target with a fault, for the test of campaigns."""


def target(name: str) -> AnyTarget:
    """Return a target. Raises KeyError for an unknown name."""
    modules = {**_MODULES, "planted": (PLANTED,)}
    module = next((module for module, names in modules.items() if name in names), None)
    if module is None:
        raise KeyError(name)
    found: Sequence[AnyTarget] = import_module(f"tests.fuzz.targets.{module}").TARGETS
    return next(each for each in found if each.name == name)
