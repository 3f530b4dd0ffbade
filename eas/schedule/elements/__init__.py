"""Elements of blocks as scalar IR, and the statements around nests: what the schedules of all targets are made of."""
