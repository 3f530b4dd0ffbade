"""How every memory access walks through its buffer: affine offsets, box masks, launch facts."""

from eas.analysis.indexing.accesses import Access, AccessKind, IndexInfo, analyse
from eas.analysis.indexing.affine import Affine, Term
from eas.analysis.indexing.bounds import interval, least
from eas.analysis.indexing.boxes import Bound, Box, Boxes, Guard, Residual
from eas.analysis.indexing.facts import launch_facts
from eas.analysis.indexing.forms import Forms
from eas.analysis.indexing.linear import Linear, Symbol
from eas.base.facts import Fact, FactKind

__all__ = [
    "Access", "AccessKind", "Affine", "Bound", "Box", "Boxes", "Fact", "FactKind", "Forms",
    "Guard", "IndexInfo", "Linear", "Residual", "Symbol", "Term", "analyse", "interval",
    "launch_facts", "least",
]  # fmt: skip
