"""From the spools of brokers to Parquet files that any tool can read. Knows the schema, and no broker."""
