"""One partition of __consumer_offsets under one leader epoch: its term, its groups, and the end of them."""
