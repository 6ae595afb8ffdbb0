"""The push protocol's bytes: the coordinator calls its consumers, as drawn in the draft before Kafka 0.9."""
