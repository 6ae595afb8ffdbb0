"""The quota path: all ConnectionQuotas of a cluster, from their manifests to every broker and back to their statuses.

reconcile = gather -> plan -> diff against the ledger -> send -> read back -> statuses that differ.

- `model`: what a quota limits, what becomes of it, and which limits of Kafka that is. `plan`: all quotas of a cluster.
- `ledger`: what brokers were seen to lack. `state`: all that is known of a cluster from pass to pass.
- `status`: what a quota's status says. These do no I/O.
- `reconcile`: the pass. `brokers`: its talk with brokers. `external`: beside others' limits. `statuses`: writes them.
- `observed`: what limits hold back.
"""
