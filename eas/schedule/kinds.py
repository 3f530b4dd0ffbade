"""Kinds of instructions that steps tell apart."""

CONTROL = ("for", "while", "if")
PRODUCTS = ("dot", "dot_direct", "contraction")
# Lanes meet: the target lowers each of these on its own, from operands in memory.
CUTS = frozenset({*PRODUCTS, "scan", "sort", "topk", "histogram", "barrier", "device_print", "mma", "mma_store", "mma_zero", "mma_select"})
# Members of nests whose results are known after the nest.
FOLDS = frozenset({"reduce", "histogram"})
