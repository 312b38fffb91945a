"""Set-up of the machine and of the pipeline's environment, run by the system's own Python (3.9 or newer).

Standard library only. ``facts`` looks, ``plan`` decides (pure), ``apply`` acts; ``python3 -m tare.setup``
is what the Makefile calls.
"""
