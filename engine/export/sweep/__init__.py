"""A saved sweep as pictures, tables, data and a report."""
