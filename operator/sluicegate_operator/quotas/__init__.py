"""The quota path: all ConnectionQuotas of a cluster, from their manifests to every broker and back to their statuses.

`reconcile` is one pass; `brokers`, `external`, `statuses` and `observed` do its I/O. `model` defines the meaning of a
quota, `plan` plans all quotas of a cluster, and `ledger` remembers the limits that brokers lack. `state` keeps all of
these between passes, and `status` writes the texts for users. Those five do no I/O, and neither do the modules that
they use.

`model.QuotaName` identifies a quota within its cluster. The words of the path, each made of those before it:

- Claim: what one quota asks for its target (`plan`).
- Ruling: the decision on all claims for one target, with the limits that follow (`plan`).
- Verdict: the same decision for one quota: accepted, or why not (`model`).
- Standing: the limits that one broker lacks, as the ledger knows it (`ledger`).
- Enforcement: which brokers have the limits of a ruling, which lack them, and why (`status`).
- Assessment: claim, ruling and enforcement of one quota; its status follows from nothing else (`state`).

Invariants:

- A limit goes to brokers before its status is written, and waits neither for a roll nor for a status.
- While an object that limits follow from cannot be read, limits may become stricter; none is lifted (`kept_limits`).
- On brokers that other clients configure too, only limits that the operator set are lifted (`external`).
- A change costs no more than the change itself: brokers are asked for everything only at a start, at each resync, and
  after they did not answer (`ledger`).

The unit tests are in tests/unit/sluicegate_operator/quotas; tests/contract/test_quota_path.py runs the path on brokers.
"""
