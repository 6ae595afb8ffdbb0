"""KafkaUsers: credentials, ACLs and quotas of a user."""
