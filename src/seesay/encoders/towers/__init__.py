"""CLIP towers of open_clip and image networks of timm, by their names there.

The first load needs the library (the `hub` extra) and exports the networks to ONNX; later ones need neither
the library nor PyTorch.
"""
