"""Exports a run as a stand-alone PyTorch script that trains as the run did, without Ammeter."""
