"""What the quota path knows of a cluster between passes, and of limits that brokers may lack. No I/O."""
