"""The Metal runtime's own parts: memory, copies, launches, failures, facts of the GPU."""
