"""What every report is made of: measuring, tables, plots."""
