"""One connection: its state machine, the requests in flight, and the bytes that it owes."""
