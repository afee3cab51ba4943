"""Workers: processes that run jobs, with their supervision, ranks, and keepers on remote machines."""
