"""The quota path: all ConnectionQuotas of a cluster, from their manifests to every broker and back to their statuses.

`reconcile` is one pass; `brokers`, `external_limits`, `statuses` and `observing.observed` do its I/O. `model` defines
the meaning of a quota, `plan` plans all quotas of a cluster, and `state.ledger` remembers the limits that brokers lack.
`state.state` keeps all of these between passes, and `status` writes the texts for users. Those five do no I/O, and
neither do the modules that they use.

`model.targets.QuotaName` identifies a quota within its cluster. The words of the path, each made of those before it:

- Claim: what one quota asks for its target (`plan`).
- Ruling: the decision on all claims for one target, with the limits that follow (`plan`).
- Verdict: the same decision for one quota: accepted, or why not (`model.verdicts`).
- Standing: the limits that one broker lacks, as the ledger knows it (`state.ledger`).
- Enforcement: which brokers have the limits of a ruling, which lack them, and why (`status`).
- Assessment: claim, ruling and enforcement of one quota; its status follows from nothing else (`state.known`).

Invariants:

- A limit goes to brokers before its status is written, and waits neither for a roll nor for a status.
- While an object that limits follow from cannot be read, limits may become stricter; none is lifted (`kept_limits`).
- On brokers that other clients configure too, only limits that the operator set are lifted (`external_limits`).
- A change costs no more than the change itself: brokers are asked for everything only at a start, at each resync, and
  after they did not answer (`state.ledger`).

A new field of ConnectionQuota passes these stops; a field that only the status shows begins at the fourth:

1. `api.models.connection_quota`: the field, its description, and its rules in CEL and in Python, which must agree.
   tests/support/manifests has the manifests that both must refuse. `make crds chart` writes the CRDs and docs.
2. `model`: `targets.Limits`, the keys of brokers (`quota_keys`), and `verdicts`: `verdict_of` for conflicts, and
   `unsupported` if Apache Kafka lacks it. A new broker key needs a line in `api.configs.config_keys`.
3. `plan` only if the field changes which quotas compete for a target (`TargetKey.of_quota`).
4. `state.known` and `state.state` if brokers report something about it (`observing.observed` reads it), then `status`.
5. The commands that show it: `cli.asking.quota_rows`, `cli.fleets.fleet_tables`; docs/reference/connection-quotas.md.

The unit tests are in tests/unit/sluicegate_operator/quotas; tests/contract/test_quota_path.py runs the path on brokers.
"""
