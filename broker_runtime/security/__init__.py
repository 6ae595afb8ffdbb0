"""Who a client is: the principals that authentication finds."""
