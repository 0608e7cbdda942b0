"""The HTTP of outbound: parse, call a service, render."""
