"""Adaptive connection rates: the rate moves between two bounds so that established clients keep an objective. Pure.

Idea. New connections and established clients share one event loop. A `Probe` of the broker measures how long a ready
request waits for the event loop. While the p99 of these delays exceeds the objective, and new connections cause it, the
rate is cut. While the p99 is well within the objective, the rate is raised. The control law is a gradient, as in
Netflix's concurrency-limits and in Envoy's adaptive concurrency, with an objective in place of a measured minimum.

Invariants:

- The rate is never below the minimum rate and never above the maximum rate.
- The rate is decided every half second. A cut at most halves a rate that delays connections. A rate that delays none
  is cut to at least half of the connections that came. A rise is at most 5 %. So the rate falls fast and rises slowly.
- Delays measured before a change of the rate never decide about the next change.
- The rate is not cut while new connections use less than a sixth of the event loop's time. Established clients cause
  the delays then, and a lower rate would not reduce them.
- Between 70 % and 100 % of the objective the rate does not change.

The package is pure: times are milliseconds that the caller passes.
"""
