"""The operator on Kubernetes: kopf's handlers, the work queues, and the reconcilers that only Kubernetes needs.

An event takes one path: `kopf_operator.py` (on.event) puts the object into the cache (`kube/cache/cache.py`), the cache
calls `watch.py`, which marks a cluster's key in queues, and each queue calls its reconciler with the key. `term.py`
creates the queues for a term of leadership. The reconcilers without a folder in the table are in `reconcilers`.

| queue | reconciler | its work |
|---|---|---|
| quotas | quotas/reconcile.py | limits of ConnectionQuotas on brokers; marks the next two |
| statuses | quotas/statuses.py | statuses of ConnectionQuotas |
| observed | quotas/observing/observed.py | what limits throttle now, and counts for mode Observe |
| clusters | clusters.py | StatefulSets and all other children of a BrokerCluster, its status |
| listeners | engine/listeners.py | listeners on running brokers, their Services and statuses |
| topics | engine/topics.py | Topics, their partitions, replicas and configuration |
| registrations | registrations.py | BrokerRegistrations, readiness gates, fencing of brokers whose pods are gone |
| racks | engine/racks.py | sends each broker its rack |
| rolls | engine/rolls.py | restarts and scaling, one node after the other |
| configs | engine/configs.py | dynamic configuration of brokers |
| descriptions | descriptions.py | reads the tags, versions and damaged logs of brokers |
| observers | engine/observers.py | ObserverPlugins on brokers, and their code in a ConfigMap |
| pipelines | pipelines.py | CronJobs or Spark objects of AuditPipelines, and their runs |
| users | engine/users | credentials, ACLs and quotas of KafkaUsers on brokers |
"""
