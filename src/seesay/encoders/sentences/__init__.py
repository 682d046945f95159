"""Sentence encoders, one family in each file; `SENTENCE_ENCODERS` lists them."""
