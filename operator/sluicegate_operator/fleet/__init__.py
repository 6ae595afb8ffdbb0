"""Where brokers run and what is read from them: the I/O layer between the engine and the Kafka admin protocol.

`protocol` is what the engine asks of a fleet. `kubernetes` (over `pods`), `local` and `external` are the fleets, and
`kafka` has what all of them ask of brokers.
"""
