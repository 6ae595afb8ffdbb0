"""What a BrokerCluster consists of: its brokers, its child objects and the settings of its pods."""
