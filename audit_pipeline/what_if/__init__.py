"""What other limits would have done to the connections of an audit log. Pure.

Problem: which number to write into a ConnectionQuota can be tried only on live clients. The audit log has every
connection with its times, so other limits can be tried on the connections of last Tuesday.

Idea: the broker's own limiter (`connection_limits`) decides again about the same connections. Times come from the log.

- `attempts` turns recorded events into attempts: when a client came, when it left, what the broker did.
- `listener_line` has the broker's order of acceptance: at most one client of a listener waits for a limit, and others
  wait behind it.
- `replay` moves through virtual time, asks the limiter, and stores its decisions in the attempts.
- `limits` reads the limits to try. `summary` counts by limit and client, beside what really happened.

Invariants:

- Under the limits that were in force, each decision and its time are those of the log (decision 66). A property test
  proves it over logs that the broker's acceptor wrote.
- The replay keeps the lateness of the broker: if a client could be asked at a time, and was asked at most `LATENESS_US`
  later, it is asked at the recorded time. Under the limits that were in force, it is asked then however late that is.
- A replay needs the events of one boot of one broker in the order of their numbers, and no other state.

Not known from a log: how long clients waited in the kernel's queue, and what clients would have done that were
delayed, admitted or refused otherwise than they really were. The output of the command says so.
"""
