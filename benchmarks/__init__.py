"""eas beside what its users would pick instead: `python -m benchmarks --help`."""
