"""A made-up deployment with a past: for pictures and for measuring pages. Local only.

``shapes`` holds what it is made of, as tables. ``build`` reads in order, like the path
of a send; each other file makes the rows of one kind.
"""
