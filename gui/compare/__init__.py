"""The workspace Compare."""
