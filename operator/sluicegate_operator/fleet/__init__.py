"""Where brokers run and what is read from them: the I/O layer between the engine and the Kafka admin protocol."""
