"""Markers: how the end of a transaction reaches the leaders of its partitions (KIP-98).

Problem. A transaction whose Prepare record is durable must get its marker in each of its partitions, although leaders
move, brokers fail, answers are lost and topics are deleted meanwhile. Readers of committed records wait for it.

Idea. `queues` keeps the partitions without a marker for each broker that leads some of them. One WriteTxnMarkers
request is under way to a broker at a time. While it is, further transactions wait and go together into the next
request. A partition whose request fails is looked up in the metadata again after a pause that grows.

Modules.

- `results` is the table of what an error code means for a marker; `queues` decides what is sent to which broker.
- `dispatch` sends the requests; a broker that leads partitions itself writes their markers without a request.
- `local_markers` writes markers to the partitions that this broker leads, for its own requests and those of others.
- `requests` turns markers into requests and results into answers.

Invariants.

- A partition is reported as done only after its leader has answered that the marker is durable, or once the metadata
  no longer has the partition.
- Each marker says what the Prepare record says. It may be written more than once, which changes nothing for readers.
- After `drop`, and after a leader has refused a marker as out of date, nothing is reported about the transaction.
- At most one request is under way to each broker, and none has more partitions than the limit.
- A deposed coordinator may still send. Leaders refuse its markers by the coordinator epoch, once they have a newer one.

`results`, `queues` and `requests` are pure: no I/O, no clock, no event loop.

Tests: tests/unit/broker_runtime/transactions/markers, and tests/simulation/transactions with faults.
"""
