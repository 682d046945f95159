"""Protocols: how the scores of a split become the numbers of a table."""
