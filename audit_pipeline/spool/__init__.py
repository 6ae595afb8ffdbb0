"""Files of the audit log: spools that brokers write, and segments in a store."""
