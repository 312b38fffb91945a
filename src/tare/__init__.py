"""Tare: what training in a container costs on this machine, and which part of the container costs it."""

__version__ = "0.1.0"
