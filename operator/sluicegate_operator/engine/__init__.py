"""Reconcilers that the operator and `sluicegate up` share.

Problem: the operator runs pods through an API server, `sluicegate up` runs processes from files. Both must roll, scale,
configure and report clusters in the same way.

Idea: each reconciler works on one kind of change for one cluster: it gathers a `Snapshot`, observes brokers and nodes,
lets `planning` decide, and carries out one step. A `ReconcileContext` hides where objects and statuses are stored, and
a `Fleet` hides where nodes run. A `WorkQueue` for each reconciler decides when a cluster is due, by its namespace and
name.

Invariants:
- Each change has its own queue, so a slow one (a roll may wait for hours) does not delay the others.
- No step is remembered between two reconciles; `ClusterProgress` has findings for the status, which each queue finds
  again.
- Keys that the operator owns are written into a status before they are set on brokers: see `ReconcileContext.remember`.

Errors of a write, and what every reconciler does about each:

| error | reconciler |
|---|---|
| no answer of the API server, or the API server is busy | ends this reconcile; the queue retries |
| KubeError that may pass (`retriable`) | continues with other objects; the queue retries; reported after a minute |
| KubeConflictError | gives up this step and decides again soon; reported after a minute |
| KubeError for good | reports the reason at once |
| KafkaAdminError that may pass | continues if it concerns one object; retries |
| KafkaAdminError for good (`is_refusal`) | reports the reason at once |

`Refusals` collects the errors of one reconcile, `LastingRefusals` measures the minute, and `REFUSED_RETRY` is the retry
of a reported error. The reasons in conditions and Events, for good and after a minute:

| reconciler | refused write | for good | after a minute |
|---|---|---|---|
| rolls | restart of a node | RestartRefused | NotApplied |
| scaling | size of a StatefulSet | ScaleRefused | NotApplied |
| scaling | reassignment of a partition | MoveRefused | |
| scaling | unregistration of a broker | UnregisterRefused | |
| racks | annotation of a pod with its rack | RackRefused | NotApplied |
| topics | finalizer, status, topic | Refused | NotApplied |
| users | object, Secret, credentials, ACLs | Refused | NotApplied |
| observers | ConfigMap with an observer's code | Refused, NameTaken | Refused |
| listeners | Service of a listener | Refused, NameTaken | NotApplied |
| configs | broker configuration | ConfigRefused | |
| certificates | Secret | SecretUnreadable, NameTaken | |

A reconciler returns when it wants to run again (`Again`). The tests are in tests/unit/sluicegate_operator/engine;
tests/contract/test_fleets.py checks both fleets.
"""
