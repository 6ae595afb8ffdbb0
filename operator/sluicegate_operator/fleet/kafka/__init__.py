"""What is asked of brokers by Kafka's protocol, for every kind of fleet."""
