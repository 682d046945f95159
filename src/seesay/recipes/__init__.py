"""Recipes: one YAML file per system, with its variants and the paper's settings, and the keys of recipes."""
