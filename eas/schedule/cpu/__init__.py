"""Nests -> loops over lanes: the lowering of one program for a CPU."""
