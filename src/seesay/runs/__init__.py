"""Runs: trained matchers with all they need; what they read, and how they score."""
