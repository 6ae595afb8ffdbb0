"""Read which connections limits throttle on brokers, and show them in the statuses of quotas."""
