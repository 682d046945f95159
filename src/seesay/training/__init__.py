"""Losses, samplers, the loop and its checkpoints."""
