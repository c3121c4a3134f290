"""Compiled code: where it is kept, what LLVM offers beyond Numba, and kernels that do not depend on a predicate."""
