"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (docs/reference/classic-groups.md). Pure.

`group.ClassicGroup` is one group; `joining`, `syncing`, `heartbeats` and `leaving` decide requests, `rebalance` and
`sessions` what follows of them and what time brings; `loading` goes on after a fail-over.
"""
