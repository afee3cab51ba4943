"""The pages that install, check and remove PyTorch, and the doctor, which checks the machine."""
