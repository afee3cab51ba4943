"""What is held against FP32, which trains several times to show how far it parts from itself."""
