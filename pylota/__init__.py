"""The composition root: settings, routes, the API's plumbing, operator commands."""

import gc

VERSION = "0.1.0"

# Loading makes some hundred thousand objects, and all of them stay: by its usual
# measure the collector would look through them a thousand times.
gc.set_threshold(50_000, 20, 20)
