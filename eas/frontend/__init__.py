"""Turns Python functions into traceable form and records what they read."""
