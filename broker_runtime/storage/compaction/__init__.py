"""The log cleaner: for each key of a compacted topic it keeps the last record (KIP-58, KIP-354, KIP-534).

`dirt` decides which log is cleaned and how far, and `offset_map` knows each key's last record. `records` builds new
batches from old ones, and `steps` has the work for threads. `cleaning` runs one log's cleaning, and `cleaner` runs
continuously.
"""
