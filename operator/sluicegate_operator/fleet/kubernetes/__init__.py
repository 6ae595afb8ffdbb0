"""The fleet of one BrokerCluster in Kubernetes."""
