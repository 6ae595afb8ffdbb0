"""Encoding and decoding only: the push protocol's frames, the few Kafka requests needed, record batches."""
