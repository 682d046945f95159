"""Stores of vectors: what finds the nearest ones. One a module; the embedded one is `seesay.search.ann`."""

from seesay.search.stores.base import VECTOR_STORES, VectorStore, open_vectors, register_store, store_address

__all__ = ["VECTOR_STORES", "VectorStore", "open_vectors", "register_store", "store_address"]
