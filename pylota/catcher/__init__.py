"""The mail catcher of the local environment: a real SMTP server; nothing leaves it."""
