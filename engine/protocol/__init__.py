"""The protocol between Ammeter and its workers: jobs, events, and the answers of studies as data."""
