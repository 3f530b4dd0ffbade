"""What lies between a call of a kernel and its compiled code."""
