"""The HTTP of webhooks: parse, call a service, render."""
