"""Groups of addresses: the networks that clients connect from. Pure."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

_HEXTETS = 8
_IN_NETWORK = 4


def address_group(address: Column) -> Column:
    """Return the network of 24 bits (IPv4) or 64 bits (IPv6) of an address; any other text unchanged."""
    of_four = F.concat(F.substring_index(address, ".", 3), F.lit(".0/24"))
    return (
        F.when(address.contains("."), of_four).when(address.contains(":"), _network_of_six(address)).otherwise(address)
    )


def _network_of_six(address: Column) -> Column:
    before = _hextets(F.substring_index(address, "::", 1))
    after = F.when(address.contains("::"), _hextets(F.substring_index(address, "::", -1)))
    after = F.coalesce(after, F.array().cast("array<string>"))
    zeros = F.array_repeat(F.lit("0"), F.greatest(_HEXTETS - F.size(before) - F.size(after), F.lit(0)))
    network = F.slice(F.concat(before, zeros, after), 1, _IN_NETWORK)
    return F.concat(F.array_join(network, ":"), F.lit("::/64"))


def _hextets(text: Column) -> Column:
    # A lambda would keep Spark from compiling the whole query, also for addresses without a colon.
    return F.array_remove(F.split(text, ":"), "")
