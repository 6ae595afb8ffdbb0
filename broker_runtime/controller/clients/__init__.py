"""What the controller decides about clients: ACLs, credentials, quotas and connection groups. Pure."""
