"""Search: an index of images and sentences that returns those nearest to a query."""

from seesay.search.hits import Answer, Hit
from seesay.search.index import Index
from seesay.search.query import Query

__all__ = ["Answer", "Hit", "Index", "Query"]
