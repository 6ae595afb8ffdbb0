"""The bytes of the push protocol, in which the coordinator calls its consumers, from a draft before Kafka 0.9."""
