"""The setup form: its fields, draft, checks and panel."""
