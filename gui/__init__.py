"""The desktop program (PySide6): its windows, pages and widgets."""
