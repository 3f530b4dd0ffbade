"""How every memory access walks through its buffer: affine offsets, box masks, launch facts."""

from eas.facts import Fact, FactKind
from eas.indexing.accesses import Access, AccessKind, IndexInfo, analyse
from eas.indexing.affine import Affine, Term
from eas.indexing.bounds import interval, least
from eas.indexing.boxes import Bound, Box, Boxes, Guard, Residual
from eas.indexing.facts import launch_facts
from eas.indexing.forms import Forms
from eas.indexing.linear import Linear, Symbol

__all__ = [
    "Access", "AccessKind", "Affine", "Bound", "Box", "Boxes", "Fact", "FactKind", "Forms",
    "Guard", "IndexInfo", "Linear", "Residual", "Symbol", "Term", "analyse", "interval",
    "launch_facts", "least",
]  # fmt: skip
