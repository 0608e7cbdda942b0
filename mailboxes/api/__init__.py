"""The HTTP of mailboxes: parse, call a service, render."""
