"""Search: an index of images and sentences that answers queries with the nearest of them."""

from seesay.search.index import Hit, Index

__all__ = ["Hit", "Index"]
