"""KafkaUsers: their passwords, and their state on the brokers."""
