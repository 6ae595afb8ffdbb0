"""Whether rows of partition lack their clients, so that these have to be looked for. Reads."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it


def has_unknown_clients(partition: DataFrame) -> bool:
    """Return whether any row of partition lacks its client, as rows of version 1.0 do. Reads the rows."""
    return not partition.where(F.col("listener").isNull()).select("seq").isEmpty()
