"""What happens to segments later: compaction, retention, publication, checks."""
