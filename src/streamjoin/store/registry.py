"""Every index that users can choose. A new one is a file that defines its `KIND`, and a line here."""

from __future__ import annotations

from . import bi_sort, hash, rap_table, scan, wib_tree
from .index import IndexKind

INDEXES: dict[str, IndexKind] = {
    kind.name: kind
    for kind in (
        scan.KIND,
        hash.KIND,
        bi_sort.KIND,
        rap_table.KIND,
        wib_tree.KIND,
    )
}
