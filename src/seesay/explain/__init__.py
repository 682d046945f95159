"""What of a sentence speaks for its match with an image, and what against it."""
