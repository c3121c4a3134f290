"""Compiled code: where it is kept, what LLVM offers beyond Numba, and kernels that know no predicate."""
