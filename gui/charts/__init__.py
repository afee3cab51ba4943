"""Live plots: curves of the precisions in one frame, with the legend as the readout."""
