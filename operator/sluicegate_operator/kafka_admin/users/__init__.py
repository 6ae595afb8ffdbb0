"""Users at the brokers: SCRAM credentials, ACLs, and quotas of users."""
