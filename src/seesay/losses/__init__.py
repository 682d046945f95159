"""Losses: what training minimises, one paper or one loss a file."""
