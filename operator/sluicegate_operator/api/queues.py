"""The names of the work queues: each queue has the clusters that one reconciler must visit.

`kinds` says which queues a changed object marks, and handlers/watch.py says it for pods and children. handlers/term.py
has the table of the reconcilers. Metrics show the names.
"""

from enum import StrEnum


class Queue(StrEnum):
    """A work queue. The order is that in which a changed BrokerCluster marks them: quotas wait for nothing else."""

    QUOTAS = "quotas"
    """Sends limits to brokers: quotas.reconcile."""
    STATUSES = "statuses"
    """Writes the statuses of ConnectionQuotas: quotas.statuses."""
    OBSERVED = "observed"
    """Reads which connections limits throttle (quotas.observing.observed)."""
    CLUSTERS = "clusters"
    """Applies a cluster's children, and writes its status: handlers.reconcilers.clusters."""
    LISTENERS = "listeners"
    """Opens and closes listeners of running brokers: engine.listeners."""
    TOPICS = "topics"
    """Creates, changes and deletes topics: engine.topics."""
    REGISTRATIONS = "registrations"
    """Writes BrokerRegistrations, the controller's view of brokers: handlers.reconcilers.registrations."""
    RACKS = "racks"
    """Tells brokers their racks: engine.racks."""
    ROLLS = "rolls"
    """Restarts nodes and scales clusters: engine.rolls."""
    CONFIGS = "configs"
    """Sends the dynamic configuration to brokers: engine.configs."""
    DESCRIPTIONS = "descriptions"
    """Reads what brokers report of themselves: handlers.reconcilers.descriptions."""
    OBSERVERS = "observers"
    """Loads ObserverPlugins into brokers: engine.observers."""
    PIPELINES = "pipelines"
    """Applies the jobs of AuditPipelines: handlers.reconcilers.pipelines."""
    USERS = "users"
    """Sends KafkaUsers to brokers: engine.users."""
