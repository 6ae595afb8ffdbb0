"""The quota path: all ConnectionQuotas of a cluster, from their manifests to every broker and back to their statuses.

`reconcile` is the pass; `brokers`, `external`, `statuses` and `observed` do its I/O. `model` says what a quota means,
`plan` plans all of a cluster, `ledger` remembers what brokers lack, `state` holds all of these from pass to pass, and
`status` says what people read. Those five do no I/O, and neither do the modules that they use.
"""
