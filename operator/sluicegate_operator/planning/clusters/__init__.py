"""The status of a BrokerCluster, and claims that belong to other owners."""
