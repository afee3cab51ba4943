"""Remote machines and Slurm clusters: connects by ssh, installs Ammeter and PyTorch, and runs workers."""
