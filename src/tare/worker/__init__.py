"""What runs inside every runtime: one loop, one clock, one event writer (see PROTOCOL.md).

Standard library only, syntax of Python 3.9; nothing is imported here, so that the first instruction comes early.
"""
