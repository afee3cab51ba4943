"""The page Sweep: several values of settings, trained in a grid."""
