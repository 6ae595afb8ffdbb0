"""BLAKE2b (RFC 7693), which is `hashlib.blake2b`: taken from the module that hashlib takes it from.

hashlib itself loads OpenSSL, which is 4 MB of a process that has no other use for it.
"""

from _blake2 import blake2b as blake2b
