"""Names for the arrays that travel through the house, and the ends of 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
"""Row numbers within a stream."""
Places = npt.NDArray[np.int32]
"""Places within a batch or a subwindow."""
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
