"""The PyTorch modules of packaged encoders: exported once, fine-tuned, or run on a GPU."""
