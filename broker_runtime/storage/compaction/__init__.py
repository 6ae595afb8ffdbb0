"""The log cleaner: of compacted topics each key keeps its last record (KIP-58, KIP-354, KIP-534).

`dirt` decides which log and how much of it, `offset_map` knows each key's last record, `records` makes new batches of
old ones, `steps` are the work of threads, `cleaning` is one log's from begin to end, and `cleaner` goes on for ever.
"""
