"""Attacks on what seesay must survive: `python -m tools.torture`, or `make torture`."""
