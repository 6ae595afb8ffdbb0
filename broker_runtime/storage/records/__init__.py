"""The bytes of record batches: their headers, checks, codecs, sequence numbers, and the rules of retention."""
