"""The operator's access to the API server: kopf feeds a cache that reconcilers read, and a client writes.

Reconcilers read many objects of many clusters, so they read a cache and not the API server. Two operator processes must
never write at the same time, so each write depends on a Lease.

Reads (`cache`): kopf lists and watches each kind in `watched` through the HTTP session in `reflector`. That session and
kopf's event handler (handlers.kopf_operator) write through `feed` to an `informer` for each kind. `cached_object`
parses the objects, `store` indexes them, and `cache.cache` serves them and notifies its subscribers.

Writes: `client` has the operator's actions, and `http.api_server` sends their requests in threads with a time limit.
`lease` decides whether this process may write. `certificates` reads and issues certificates.

Invariants:

- A kind that has not synced, or whose watch is silent for too long, is an error and is never read as empty.
- The rules for lists and events compare resourceVersions; none relies on the order in which kopf calls handlers.
- No stored object is replaced by an older resourceVersion. The operator stores its own writes when the API server has
  answered, so no reconcile plans from a state before them.
- A write is sent only while the Lease is held, and it ends before another process may take the Lease over.
- If an object with the name of a child does not belong to the operator, the operator never changes it (decision 12).
- `client.rights` lists every right that the operator uses; tests compare it with the chart and with an audit log.

The unit tests are in tests/unit/sluicegate_operator/kube. tests/contract/test_kube_api.py runs the client against a
real API server.
"""
