"""Decide what should happen, from the wanted and the observed state.

Pure: no I/O, no clock.

Problem: brokers, controllers and the API server change while the operator reads them, and the operator may end at any
step. A decision that depends on remembered steps would be wrong after a restart.

Idea: each module compares models of `api` with frozen observations, and returns a plan or a status as a value. `fleet`
and `kafka_admin` make the observations, `engine` and `quotas` carry out the plans, and the next reconcile observes
again. The time is always an argument.

Invariants:
- A plan follows from its arguments alone, so a new operator continues after one that ended at any step. The exceptions
  are explicit state objects, such as `FailureHistory` and `WorkloadIndex`; their content can be observed again.
- An observation that failed is marked as such, mostly as None with a sentence (`unseen`), and never counts as an empty
  collection. Without it no plan removes or restarts anything that might be in use.
- The parts of an observation have an order of reads, if a plan depends on it: see `fencing`.
- Refusals become part of the plan's outcome, so that the status reports them.

Folders: `layout` defines what a cluster consists of, `limits` its connection limits, `registrations` and `rolls` plan
changes of its brokers, `clusters` and `external` derive its status. `listeners`, `observers`, `topics`, `users` and
`pipelines` plan one kind of resource each, `certificates` the authority of a cluster and its renewal, and `status` has
the conditions that all kinds share. The tests are in tests/unit/sluicegate_operator/planning. The import contracts in
pyproject.toml check that the package stays pure.
"""
