"""The C code of the CPU backend, and in text/ what tools/build_native.py compiles it to."""
