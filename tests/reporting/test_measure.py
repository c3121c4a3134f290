"""Measuring: the load of other programs."""

from __future__ import annotations

import pytest

from streamjoin.reporting.measure import Others
from streamjoin.reporting.tables import others_text

pytestmark = pytest.mark.bench


def test_a_busy_machine_is_told() -> None:
    assert "BUSY" in others_text(0.5)
    assert "BUSY" not in others_text(0.01)
    assert "not known" in others_text(None)
    cores = Others().cores()
    assert cores is None or cores >= 0
