"""Replicas of partitions: one broker leads each, the others copy its log.

Problem. Every broker that may be elected as the next leader must have every acknowledged record. Logs of different
brokers must never differ below the high watermark.

Idea. `manager` follows the metadata: it opens the logs (`local_logs`) and makes each replica a leader (`led_replicas`)
or a follower (`followed_replicas`). A follower (`fetcher`) has one fetch session for each leader (`follower_session`,
KIP-227). Before its first fetch from a new leader, it cuts its log to the part that both share (`truncation`, KIP-101,
KIP-279). The leader (`leader`) derives the high watermark from its followers' fetch offsets. It proposes in-sync sets
(`wanted_isr`, `in_sync_sets`), and the controller decides (`isr_changes`, KIP-497). `repairs` and `repairing` replace
damaged ranges by batches of another replica, which reads them with `replica_ranges` (decision 46).

Invariants:

- The high watermark never exceeds the log end of a replica that may be elected, a proposed one included (KIP-966).
- A follower fetches only while its log is a prefix of the leader's, and reports only records that count on its disk.
- An in-sync set changes when the metadata has the change, not when it is requested.
- A log is deleted only if a record has ordered it; otherwise it is set aside. This broker does not lead a partition
  whose log cannot be loaded or is set aside.
- A replica answers requests for its batches only in a leader epoch in which its log is a prefix of the leader's.

Tests are in tests/unit/broker_runtime/replication; tests/simulation runs whole clusters.
"""
