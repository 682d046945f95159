"""One YAML file a row of a paper's table, and what such a file may say."""
