"""Pretrained parts: images, regions of them and sentences to arrays, and where the arrays are kept."""
