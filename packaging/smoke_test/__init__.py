"""The smoke test of a built package: `quick` unpacks and uses it, `whole` installs it in a bare system.

The tested program is exactly the package's. Nothing in it is made for tests.
"""
