"""The CPU runtime's own parts: JIT, loader, worker pool, native launcher."""
