"""How one program runs: loops and SIMD on a CPU, lanes and registers on a GPU."""
