"""Sentence encoders: sentences to vectors, by something that is frozen while a matcher trains."""
