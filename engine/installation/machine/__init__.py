"""What this machine is, and which builds of torch fit it."""
