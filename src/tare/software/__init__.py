"""Software of a stack in its three forms: image, root filesystem, venv of the machine's own interpreter.

What is big lies in ``tare.paths.cache_dir()``, keyed by content; what Snakemake sees are small JSON files.
"""
