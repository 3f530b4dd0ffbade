"""What a kernel reads from outside, as keys that change with it."""
