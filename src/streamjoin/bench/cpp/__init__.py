"""The C++ baselines: sources, and the classes that compile and call them."""
