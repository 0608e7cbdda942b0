"""What ``manage.py doctor`` looks at, each within bounds of time."""
