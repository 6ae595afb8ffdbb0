"""The API keys of Sluicegate's own APIs. Kafka numbers its keys from 0 and has not reached 100. Pure data.

ApiVersions, which is Kafka's, does not list them. The push protocol has no headers: its request type ids are beside the
API keys, so that one listener serves both protocols.
"""

BROKER_METADATA = 30_000
CLUSTER_METADATA, REGISTER_CONSUMER, PING, STOP_FETCHER, START_FETCHER = range(30_001, 30_006)
"""The request type ids of the push protocol."""
REPLICA_RANGE = 30_006
DESCRIBE_LOG_DAMAGE = 30_007
ACCEPT_LOG_LOSS = 30_008
