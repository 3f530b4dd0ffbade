"""One function for every kind of array: NumPy, eas.Tensor, torch."""
