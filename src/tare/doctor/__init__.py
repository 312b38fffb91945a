"""`make doctor`: what this machine can measure and what would disturb a measurement. It reads, and changes nothing.

Standard library only, Python 3.9. Each check is a pure function of a ``Machine``, whose root can be a recorded
tree; ``survey`` gathers them, ``__main__`` prints them.
"""
