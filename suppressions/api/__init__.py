"""The HTTP of suppressions and send lists: parse, call a service, render."""
