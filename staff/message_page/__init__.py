"""One message: what is known of it, in the order of time, and what may be done."""
