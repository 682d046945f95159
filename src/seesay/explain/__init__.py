"""Explanations: which words of a sentence raise or lower its score with an image."""
