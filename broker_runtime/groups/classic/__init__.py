"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (docs/reference/classic-groups.md). Pure.

Problem. The members of a group agree on one protocol and on one assignment. The coordinator cannot read the assignment:
one member, the leader, computes it. Members join, leave and fail at any time.

Idea. The coordinator gathers JoinGroup requests until all known members have joined or the longest rebalance timeout
has passed (PreparingRebalance). It then starts a generation and sends all subscriptions to the leader
(CompletingRebalance). The leader's SyncGroup brings the assignment. The coordinator writes it to the log as one record
and answers all SyncGroup requests (Stable). A member that joins, leaves or fails starts the next rebalance.

- `group.ClassicGroup` is one group; `member` and `members` are its members, `states` its states, `requests` the
  messages.
- `joining`, `syncing`, `heartbeats` and `leaving` decide requests.
- `rebalance` has the transitions between states, and the timers that end sessions and waits.
- `reading` and `subscriptions` find the topics that members read; `portions` splits work about all members.
- `loading` continues after a fail-over; `modern` is the interface to KIP-848 groups with members of this protocol.
- `table` lists every answer and transition by state and event.

Invariants.

- The group's record is written in three cases only: the leader's assignment arrives, a static member is replaced in a
  Stable group, or a rebalance ends without members. So the next coordinator has the last complete generation.
- A group becomes Stable only by its record. No member gets an assignment that is not durable.

tests/unit/broker_runtime/groups/classic/test_table.py runs each cell of the table.
"""
