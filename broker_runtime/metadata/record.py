"""What every metadata record is. The kinds of records are defined in the modules of the areas that they change.

Pure. The set of records follows KRaft's (KIP-500, KIP-631), the encoding (`codec`) does not.
"""

import msgspec


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Subclasses are told apart by their tag, which is part of the journal's format: never reuse one."""
