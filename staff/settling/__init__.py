"""Many sends in doubt, and one answer for them: found, shown first, then settled."""
