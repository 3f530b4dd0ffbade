"""What users run beside kernels: autotune, pictures in notebooks."""
