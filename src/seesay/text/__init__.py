"""Sentences to arrays: tokenizer, vocabulary and sentence encoders."""
