"""Words of sentences: tokenizer, vocabulary, noun phrases, content words and concepts."""
