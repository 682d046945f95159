"""Grounding: where an image shows what phrases name."""
