"""Files that commands read and write: Parquet, CSV, Arrow IPC and NDJSON, by name, glob, directory or pipe."""
