"""Elementary functions of vectors as LLVM text."""
