"""The HTTP of quota: parse, call a service, render."""
