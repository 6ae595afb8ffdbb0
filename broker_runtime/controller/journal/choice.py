"""Create the journal and the election of a controller from its configuration."""

from concurrent.futures import Executor
from dataclasses import dataclass
from importlib import import_module

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.controller.journal.file import FileJournal
from broker_runtime.controller.journal.kubernetes import KubernetesJournal
from broker_runtime.controller.journal.lease import LeaseElection
from broker_runtime.controller.journal.seam import Backing, SoleElection
from broker_runtime.controller.journal.store import ObjectStore
from broker_runtime.errors import ConfigError
from broker_runtime.storage.log.log import Log

NAME_CHARACTERS_MAX = 63
"""Limit of the characters of a journal's name, which is also a label's value."""
_ANY_HOST = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class JournalParts:
    """The parts of a journal that a simulation replaces.

    These are an executor without threads, a store in memory, and a reproducible name.
    """

    disk: Executor
    incarnation: str
    """Name that distinguishes processes with the same node id."""
    store: ObjectStore | None = None


def backing(settings: BrokerSettings, metadata: Log, clock: Clock, parts: JournalParts) -> Backing:
    """Return the configured journal and election. Raises ConfigError."""
    if settings.config.sluicegate_controller_journal == "file":
        return Backing(metadata, FileJournal(metadata, parts.disk), SoleElection(settings.node_id))
    name = settings.config.sluicegate_controller_journal_name
    if name is None or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise ConfigError(
            "sluicegate.controller.journal.name is needed with the kubernetes journal: the beginning of its objects' "
            f"names, at most {NAME_CHARACTERS_MAX} characters"
        )
    duration_ms = settings.config.sluicegate_controller_lease_duration_ms
    store: ObjectStore | None = parts.store
    host, port = _own_endpoint(settings)
    if store is None:
        namespace = settings.config.sluicegate_controller_journal_namespace
        owner = settings.config.sluicegate_controller_journal_owner
        # Imported only if needed: its HTTP client would cost every other broker 14 MB of memory.
        kube_store = import_module("broker_runtime.controller.journal.kube_store")
        store = in_api_server = kube_store.KubeStore(name, namespace, duration_ms / 1000, owner=owner)
        if host in _ANY_HOST:
            host = in_api_server.own_host()
    address = "" if host in _ANY_HOST or not port else f"{f'[{host}]' if ':' in host else host}:{port}"
    identity = f"{settings.node_id}_{parts.incarnation}"
    connect_timeout_s = settings.config.sluicegate_controller_connection_setup_timeout_ms / 1000
    election = LeaseElection(store, identity, duration_ms, clock, address, connect_timeout_s)
    return Backing(metadata, KubernetesJournal(metadata, store, name, duration_ms / 1000), election)


def _own_endpoint(settings: BrokerSettings) -> tuple[str, int]:
    """Return the configured host and port at which other controllers reach this one."""
    found = [each for each in settings.listeners if each.listener in settings.controller_listeners]
    return (found[0].host, found[0].port) if found else ("", 0)
