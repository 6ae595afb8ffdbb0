"""APIs of the cluster and its brokers: versions, features, registration, heartbeat, quorum."""
