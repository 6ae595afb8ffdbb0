"""A node's place in its cluster: registration and heartbeats, the metadata that it follows, and links to other nodes.

Problem: a broker serves clients only while the controller counts on it. It must know when that ends even if the
controller does not answer, and its limits, listeners and replicas must follow the metadata without stopping clients.

Idea:

- `membership` registers, heartbeats and leaves. `lifecycle` is its pure table of phases, and `membership_status` admits
  and rejects clients by them. A broker without an answer for a session fences itself (decision 7). The session counts
  from when the last answered heartbeat was sent.
- `follower` fetches the controller's log and applies it to the image, the node's copy of the metadata. A node whose
  next record is not in the log loads the newest snapshot.
- `metadata_publisher` publishes the changes to limits, listeners and observers, and `replica_publisher` to replicas.
  `reactions` runs these steps: each is isolated, retried after a failure, and cut into pieces if it is long.
- `link` sends requests to the active controller, over a socket or directly within the process. `peers` connects to
  other brokers.

Invariants:

- A broker fences itself before the controller can elect other leaders, if both clocks run at about the same speed.
- Only `follower` changes the image. Records of one response become visible together.
- A heartbeat reports the offset up to which everything is in force (or has failed and is retried), not the fetched one.
- Clients are admitted only after the metadata in force here shows this broker as unfenced, with its current epoch.
- A broker stores its epoch before the first heartbeat under it. It can therefore prove since when its data is whole.

Tests: tests/unit/broker_runtime/cluster, tests/simulation/test_cluster.py (whole clusters under faults, in virtual
time), and tests/integration (test_broker_life.py, test_live_listeners.py, test_readiness.py).
"""
