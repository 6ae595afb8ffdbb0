"""The renewal of a cluster's own certificates, without a moment at which a node does not trust another one."""
