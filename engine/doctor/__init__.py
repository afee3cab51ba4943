"""The doctor: what is wrong with the machine, the package or the engine, and the remedy. No torch."""
