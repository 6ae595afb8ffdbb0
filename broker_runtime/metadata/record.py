"""The base of all metadata records; each kind is defined in the module of the area that it changes.

Pure. The set of records follows KRaft's (KIP-500, KIP-631), the encoding (`codec`) does not.
"""

import msgspec


class MetadataRecord(msgspec.Struct, frozen=True, array_like=True):
    """Base class of metadata records.

    Subclasses are distinguished by their tag, which is part of the journal's format: never reuse a tag.
    """
