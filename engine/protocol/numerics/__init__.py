"""What a diagnosis of an experiment's numerics found, part by part."""
