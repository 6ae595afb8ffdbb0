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
- A refusal of the API server that may pass is retried. The status reports it only after it has lasted a minute, see
  `lasting_refusals`.

A reconciler returns when it wants to run again (`Again`). The tests are in tests/unit/sluicegate_operator/engine;
tests/contract/test_fleets.py checks both fleets.
"""
