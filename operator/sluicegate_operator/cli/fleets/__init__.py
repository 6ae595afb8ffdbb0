"""Commands about brokers and their quotas: `status`, `quotas`, `why`, `brokers`, `damage`."""
