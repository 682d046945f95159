"""Images to arrays: encoders, crops and the feature store."""
