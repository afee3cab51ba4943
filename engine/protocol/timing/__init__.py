"""Where a step's time goes: values that worker, store, exports and window exchange."""
