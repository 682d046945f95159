"""Region encoders: boxes of an image to arrays."""
