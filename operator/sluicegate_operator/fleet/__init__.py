"""Where brokers run, and what is asked of them: the shell between handlers and the Kafka admin protocol."""
