"""APIs of classic and consumer groups: membership, offsets, descriptions."""
