"""Target texts: LLVM IR for the CPU and MSL for Metal, one instruction at a time."""
