"""A fake of Apple's Metal framework on the software Metal: the Objective-C++ of `eas._metal` runs on Linux as it is."""
