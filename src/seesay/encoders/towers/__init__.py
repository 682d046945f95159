"""Image and text towers of other libraries, by name: CLIP, SigLIP and their relatives, and image encoders.

A name is `LIBRARY:MODEL`, such as `open_clip:ViT-B-32/laion2b_s34b_b79k` or `transformers:./folder`. The
first load needs the library (the `hub` extra) and exports both towers to ONNX; later ones need neither the
library nor PyTorch.
"""
