"""Arrow at the door: tables that are checked, time columns that become ticks."""
