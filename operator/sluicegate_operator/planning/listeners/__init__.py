"""BrokerListeners: their Services and their status."""
