"""APIs that describe and alter configurations and client quotas."""
