"""The status of a BrokerCluster, and claims that are somebody else's."""
