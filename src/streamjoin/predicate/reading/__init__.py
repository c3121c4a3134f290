"""The three ways to write a predicate: SQL, column expressions, Python functions. Each gives an unbound tree."""
