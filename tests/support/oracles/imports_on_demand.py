"""The modules that an idle broker must not have imported, and a function that imports those of the broker itself."""

from importlib import import_module

from broker_runtime.apis.push.push_on_demand import PUSH
from broker_runtime.apis.request.dispatching.on_demand import ApiOnDemand
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.controller.service import CONNECTION_SHARES as CONTROLLER_SHARES
from broker_runtime.groups.on_demand import SERVICE
from broker_runtime.node.clients.client_quotas_on_demand import IN_FORCE as CLIENT_QUOTAS
from broker_runtime.node.clients.client_quotas_on_demand import METRICS as CLIENT_QUOTA_METRICS
from broker_runtime.node.http_routes import LIMITS_HELD, WHY_HELD
from broker_runtime.node.node import CONNECTION_SHARES
from broker_runtime.observers.running.on_demand import IN_FORCE
from broker_runtime.replication.repairs import REPAIRING
from broker_runtime.storage.compaction.cleaner import CLEANING
from broker_runtime.storage.log_dir.startup_loader import MENDING

_SERVED: tuple[object, ...] = BROKER_APIS
APIS = tuple(api for api in _SERVED if isinstance(api, ApiOnDemand))
AUTHORIZING = (
    "broker_runtime.apis.request.authorization.access_gate",
    "broker_runtime.apis.request.authorization.access_table",
    "broker_runtime.apis.request.denials",
    "broker_runtime.apis.request.enveloped",
    "broker_runtime.config.in_force.authorizer_rules",
    "broker_runtime.security.acls.authorizer",
)
"""Modules that only a broker with an authorizer imports, or one that forwards a request (ENVELOPED)."""
ON_DEMAND = (
    SERVICE,
    PUSH,
    IN_FORCE,
    CLEANING,
    REPAIRING,
    MENDING,
    LIMITS_HELD,
    WHY_HELD,
    CLIENT_QUOTAS,
    CLIENT_QUOTA_METRICS,
    CONNECTION_SHARES,
    CONTROLLER_SHARES,
    *AUTHORIZING,
    *(api.module for api in APIS),
)
"""Modules of the broker that it imports on first use."""
LIGHT_PARTS_OF_GROUPS = {
    "broker_runtime.groups",
    "broker_runtime.groups.kinds",
    "broker_runtime.groups.members_room",
    "broker_runtime.groups.lag",
    "broker_runtime.groups.lag.metrics",
    "broker_runtime.groups.lag.log_ends",
    "broker_runtime.groups.lag.watch",
    "broker_runtime.groups.on_demand",
    "broker_runtime.groups.partition_leaders",
    "broker_runtime.groups.tally",
}
"""The parts of groups that every broker imports."""
UNWANTED = {
    "_hashlib": "OpenSSL, 4 MB",
    "_ssl": "OpenSSL, 6 MB with Python's part of it",
    "cramjam": "2 MB, for batches that are compressed and whose records are looked at",
    "crc32c": "imports importlib.metadata and with it email, csv and zipfile",
    "ctypes": "1 MB",
    "email": "of HTTP libraries",
    "http.server": "of prometheus_client",
    "importlib.abc": "imports tempfile, and with it modules of archives",
    "importlib.metadata": "reads packages' versions",
    "prometheus_client": "imports an HTTP server and client",
    "re2": "2.6 MB, for regular expressions of consumers",
    "ssl": "6 MB with OpenSSL",
    "tempfile": "imports shutil, bz2 and lzma",
    "unittest": "of tests",
    "urllib.request": "an HTTP client",
    "urllib3": "the Kubernetes journal's HTTP client, 14 MB",
}
"""Third-party and standard modules, and why a broker does without them."""


def import_all() -> None:
    """Import all modules of ON_DEMAND.

    Tests in virtual time need this: a thread that imports would be late or early by chance.
    """
    for name in ON_DEMAND:
        import_module(name)
