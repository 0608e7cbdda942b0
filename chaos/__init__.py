"""The chaos run: everything is killed, cut, doubled and restarted, and then counted.

``python -m chaos --seed N`` starts all of Pylota and whatever it speaks with, hurts it
for a minute, lets it come to rest, and holds what came out against what clients were
told. ``python -m chaos.proof`` breaks Pylota on purpose, and must see it caught.
"""
