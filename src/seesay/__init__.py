"""seesay matches images with sentences."""

__version__ = "0.1.0"
