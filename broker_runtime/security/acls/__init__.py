"""Access control lists: who may do what with which resource (KIP-11, KIP-290), decided without I/O."""
