"""Commands of `python -m eas` that look at kernels: show, msl, bench, demo."""
