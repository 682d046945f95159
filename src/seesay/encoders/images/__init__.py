"""Image encoders: pixels to named arrays."""
