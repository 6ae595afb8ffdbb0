"""Whether rows of partition lack their clients, so that these have to be looked for. Reads."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it


def has_unknown_clients(partition: DataFrame) -> bool:
    """Read whether any partition does not tell its client: it is a row of version 1.0."""
    return not partition.where(F.col("listener").isNull()).select("seq").isEmpty()
