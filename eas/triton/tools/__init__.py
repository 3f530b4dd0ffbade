"""`triton.tools`: descriptors of tensors on the host."""
