"""Sentences to words: tokenizer, vocabulary, noun phrases, content words and concepts."""
