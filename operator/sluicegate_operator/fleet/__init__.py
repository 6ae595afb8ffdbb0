"""Where brokers run, and what is asked of them: the shell between the engine and the Kafka admin protocol."""
