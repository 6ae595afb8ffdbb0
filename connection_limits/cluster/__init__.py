"""One rate of connections for all brokers of a cluster, divided by the controller into leased shares. Pure.

Problem: a user has one number for a cluster, and clients move between brokers. A fixed part of the number for each
broker wastes what quiet brokers do not use. A counter that each connection asks costs a round trip for each connection.

Idea (decision 69): each broker admits by a meter of its own, whose rate is the broker's share. It reports the rate of
attempts to the controller, which divides the rate of the cluster by these demands.

- `reports` has the messages: a `Report` of a broker, and the `Answer` of the controller with the shares.
- `division` divides one rate among brokers. `ledger` is the controller's side: it knows what each broker may use.
- `shares` is the broker's side: the shares that it holds, and when to report. `share_meter` admits by one share.

Invariants:

- The shares that all brokers may use at one moment are at most the rate. A share grows only by an answer of the
  controller. The ledger counts a share from this answer on until the broker has reported a smaller one, or until its
  lease has ended by the controller's clock, which waits an eighth longer than the broker.
- A lease begins when the broker sends the report, so it ends before the controller thinks so. An answer that arrives
  after the end of the previous lease raises no share.
- A broker whose lease has ended uses its reserve, which is at most its share. One that the controller has fenced uses
  nothing: a broker fences itself before the controller does (decision 7). One that serves no clients has no reserve.
- The ledger of a new term raises no share before each broker that may hold one has reported, or has been fenced.
- An answer of an earlier term, and a report that is overtaken by a later one, change nothing.

Rates and shares are integers in thousandths of a connection a second, times are milliseconds of the caller's clock.
"""
