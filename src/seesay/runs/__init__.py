"""Runs: trained matchers with everything they need, their inputs and scores."""
