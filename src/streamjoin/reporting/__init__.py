"""What benchmarks and hardware reports share: measuring, tables, plots, files."""
