"""The functions of the language, one family a file."""
