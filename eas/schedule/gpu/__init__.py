"""Nests -> lane IR: a program spread over the threads of a Metal threadgroup."""
