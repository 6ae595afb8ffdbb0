"""The Secrets of a cluster's own certificates: its authority, and what its nodes mount."""
