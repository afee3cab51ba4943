"""The state behind the window: engine thread, job queue, saved runs, studies and sweeps."""
