"""The fleet's tables: Parquet files, what is new in a folder of captures, the engine over both."""
