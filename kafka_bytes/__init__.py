"""The bytes that several programs of this project read or write, and nothing that acts on them. Pure.

`printable` shows text that was read from them.

Broker, operator, consumer and audit pipeline import this package, and it imports none of them (decision 60). A module
needs no more than the programs that use it have: `messages` needs kio, `checksum` crc32c, `compression` cramjam for
three of its codecs. The others need only the standard library. Readers raise `FormatError`, or what their docstring
names; each program turns that into its own error.
"""
