"""Transactional ids: states and their transitions, records in `__transaction_state`, and their encoding. Pure."""
