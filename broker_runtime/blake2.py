"""BLAKE2b (RFC 7693): `hashlib.blake2b`, imported from the module that hashlib imports it from.

hashlib itself loads OpenSSL, which costs 4 MB in a process that has no other use for it.
"""

from _blake2 import blake2b as blake2b
