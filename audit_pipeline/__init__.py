"""From the spools that brokers write to Parquet files that anybody can read. Knows the schema, and no broker."""
