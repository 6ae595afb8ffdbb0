"""Answers from the audit log: their tables, and the pure functions between DataFrames that compute them."""
