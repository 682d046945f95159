"""An index of images or sentences that a matcher answers queries from."""
