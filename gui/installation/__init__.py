"""Setting up the engine, *Help > Engine* and the doctor's page."""
