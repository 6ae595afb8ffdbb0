"""APIs of transactions: partitions and groups of a transaction, its end, its markers, and what tools show of it."""
