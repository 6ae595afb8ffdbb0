"""The only Kafka admin client code: asyncio over kio messages, for the bundled broker and for Apache Kafka.

Problem: the operator governs brokers that may be slow, frozen, older than this client, or not its own. A request must
never wait without limit, a reply must never harm the process, and a lost Lease must stop all writes.

Idea: each API module (topics, configs, quotas, groups and others) is pure. It makes an `Exchange`: one request, the
type of its reply, and a function that turns the reply into a view. `Connection` sends it over one TCP connection.
`BrokerHandle` keeps the connection to one address, and `AdminClient` the handles of one cluster.

Invariants:
- Each request has a deadline. A connection ends at the first overdue reply, because all later ones would wait as well.
- `may_write` is checked directly before a request that changes anything is sent; without the Lease it is not sent.
- Only an exchange that is `repeatable` is sent again after a lost connection.
- `reading` trusts no announced length in a reply.

The package knows the protocol, but neither resources nor planning nor Kubernetes. `AdminClient` is the entry point;
views.py has its results and errors.py its errors.
"""
