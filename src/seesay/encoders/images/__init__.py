"""Image encoders, and how images are encoded."""
