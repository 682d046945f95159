"""Failures a user can cause. The command line prints their message as one line and exits 2."""


class SeesayError(Exception):
    """What was wrong, where (file, line, key, shape) and what to do, in one sentence or two."""


class ImageError(SeesayError):
    """One image cannot be used. Skipped, counted and listed by whatever goes over many images."""
