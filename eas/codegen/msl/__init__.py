"""Lane IR -> Metal Shading Language text."""

from eas.codegen.msl.generate import MetalCode, generate_msl

__all__ = ["MetalCode", "generate_msl"]
