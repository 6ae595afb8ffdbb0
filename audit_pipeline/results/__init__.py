"""Answers from the audit log: their tables, and pure functions from DataFrames to DataFrames that make them."""
