"""The group coordinator: offsets, the classic protocol and KIP-848, over the partitions of __consumer_offsets.

Pure but for `service`: a shard for each partition that this broker leads decides requests and applies records; the
runtime of `coordination` writes them, and lets answers go when they are durable.
"""
