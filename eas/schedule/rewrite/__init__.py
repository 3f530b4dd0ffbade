"""Block IR -> block IR: the steps of the CPU schedule before blocks become nests."""
