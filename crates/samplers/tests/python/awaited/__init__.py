"""The parts of awaits.py: what a suspended task awaits."""
