"""Groups of KIP-848: the coordinator assigns partitions, and members converge to their assignment by heartbeats. Pure.

Problem. In the classic protocol, one slow member delays the rebalance of all others. In this protocol the coordinator
computes the assignment, and each member follows it on its own.

Idea. A group has three epochs. `epoch` goes up with each change that requires another assignment. `assignment_epoch` is
the epoch that the target assignment was computed for. Each member has its own epoch, and reaches that of the target
when it has revoked what it must give up. A heartbeat reports the subscription and the owned partitions of a member; its
answer is the next step towards the target (`reconciliation`). A member revokes a partition before another one gets it.

- `validity` checks a request, `joining` finds its member, `leaving` and `fencing` remove members.
- `heartbeat` decides a ConsumerGroupHeartbeat, and `advance` what it means for the group and the member.
- `target` computes assignments (`groups.assignors`), small ones in the decision, large ones in a thread.
- `regexes` matches regular expressions with topics in a thread; `topics` has the facts that an assignment depends on.
- `group`, `member`, `owners` and `subscriptions` are the state; `group.APPLIERS` build it from records.
- `upgrading`, `downgrading`, `classic_members` and `embedded` are for members of the classic protocol.
- `upkeep` continues after a load and reacts to changed topics; `describe` serves ConsumerGroupDescribe.

Invariants.

- A partition has at most one owner: `owners` has it until its member has given it up.
- All state except the attributes marked as soft comes from records. A timer that only a record justifies is set once
  the log has taken the record.

tests/unit/broker_runtime/groups/consumer/test_convergence.py checks convergence.
"""
