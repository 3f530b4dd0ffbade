"""The stages of `python -m eas verify`, one a file."""
