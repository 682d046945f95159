"""Sentence encoders: one file each; `SENTENCE_ENCODERS` imports every module of this package."""
