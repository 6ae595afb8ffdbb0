"""The log of one partition: appends, reads, rolls, flushes, truncation and deletion."""
