"""The pages *Install PyTorch*, *Help > PyTorch* and the doctor."""
