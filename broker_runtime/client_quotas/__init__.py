"""Client quotas (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599): the limits of users and client ids, enforced. Pure."""
