"""What limits hold back on brokers, read and shown in the statuses of quotas."""
