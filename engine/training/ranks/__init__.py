"""Multi-device training with one process (rank) for each device: DistributedDataParallel and FSDP2."""
