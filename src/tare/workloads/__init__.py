"""What can be run: one module per family of workloads, all of them listed in ``registry``."""
