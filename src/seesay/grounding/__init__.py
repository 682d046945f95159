"""Phrases pointed at in images."""
