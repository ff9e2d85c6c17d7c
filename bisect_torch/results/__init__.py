"""Schema, journal, Parquet."""
