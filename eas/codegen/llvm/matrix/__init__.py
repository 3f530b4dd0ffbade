"""Matrix products and transposes as LLVM text."""
