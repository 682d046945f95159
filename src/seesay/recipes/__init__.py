"""One YAML file a system, with its variants and how they depart from the paper, and what a recipe may say."""
