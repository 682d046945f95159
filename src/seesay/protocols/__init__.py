"""Protocols: ways to measure a split, one a file; see `seesay.protocols.base`."""
