"""Bytes and nothing else: the push protocol's frames, the few requests of Kafka's that are needed, record batches."""
