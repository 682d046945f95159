"""The libraries whose towers are loaded by name: one module each, with a function `load`."""
