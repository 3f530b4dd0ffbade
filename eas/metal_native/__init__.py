"""The Objective-C++ of the Metal runtime, which `tools/build_metal_ext.py` builds as `eas._metal`."""
