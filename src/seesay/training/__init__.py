"""Objectives, samplers, the loop and its checkpoints."""
