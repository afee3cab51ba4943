"""Worker processes, which import torch and run jobs: their start, supervision, ranks, and use by ssh."""
