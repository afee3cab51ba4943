"""The place Demo: two runs replayed side by side, measured on demand."""
