"""The FPGA designs as circuits in Amaranth: simulated, synthesised, and compared with the papers.

Needs the extra `streamjoin[hardware]`.
"""

from __future__ import annotations

try:
    import amaranth as _amaranth  # noqa: F401
except ImportError:
    from ..errors import StreamJoinError

    raise StreamJoinError("streamjoin.hardware needs Amaranth; install streamjoin[hardware]") from None

from .design import Design as Design
from .simulate import Report as Report
from .simulate import simulate as simulate
from .verilog import verilog as verilog

__all__ = ["Design", "Report", "simulate", "verilog"]
