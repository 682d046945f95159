"""Corpora of captioned images, their formats, and pixels from bytes."""
