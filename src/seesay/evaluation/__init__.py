"""How good is a matcher: ranks, protocols, published rows and results."""
