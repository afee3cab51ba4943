"""Remote machines on which workers train: reached by ssh, prepared by uv, and clusters with Slurm."""
