"""Samplers of image-sentence pairs."""

from seesay.samplers.pairs import SAMPLERS, neighbourhood, random, register_sampler, rounds

__all__ = ["SAMPLERS", "neighbourhood", "random", "register_sampler", "rounds"]
