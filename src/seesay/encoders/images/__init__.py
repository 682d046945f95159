"""Image encoders: one file each; `IMAGE_ENCODERS` imports every module of this package."""
