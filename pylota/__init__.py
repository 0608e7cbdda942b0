"""The composition root: settings, routes, the API's plumbing, operator commands."""

VERSION = "0.1.0"
