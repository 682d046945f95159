"""The routes of the API. Clients name images by their id; a path is never taken from a request."""
