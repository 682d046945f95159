"""Region encoders: boxes of an image to arrays; `REGION_ENCODERS` imports every module of this package."""
