"""Samplers: which pairs go into a mini-batch."""
