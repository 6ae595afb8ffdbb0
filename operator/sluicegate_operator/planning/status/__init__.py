"""Conditions and the sentences that several kinds of resources share."""
