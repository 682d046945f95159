"""Grounding: find the regions of an image that phrases describe."""
