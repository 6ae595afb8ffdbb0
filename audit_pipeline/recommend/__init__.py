"""Which limits on connections a log suggests. Pure.

Problem: a user has to write a number into a ConnectionQuota, and no number is known that holds the next storm and lets
the next deployment in.

Idea: the last week has shown both. A connection is fleeting if it ends within a minute, or if a limit rejects it. In a
storm most connections are fleeting; after a deployment they stay. The suggested rate is the smallest one under which
no usual connection would have waited for more than two seconds (listeners), or would have been rejected (addresses).

- `needed_rate` finds the smallest token bucket for a series of arrivals by second.
- `demand` has what one broker has seen of a target: rates, the largest burst, the needed rate.
- `suggestion` merges brokers, compares the rate with each storm, and says why.
- `trial` replays recorded connections under the suggested limits (`what_if`), and counts by client.

Invariants:

- A suggested rate is never below the needed one: more arrivals never lower it.
- Arrivals are known by second. The needed rate assumes the worst place within the second, so that a replay of the exact
  times never delays a usual connection for longer.
- Only times at which a connection may wait are replayed. `results.arrivals.waits` finds them, with the same assumption.
"""
