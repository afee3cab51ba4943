"""The smoke test of the packaged program: `quick` unpacks the package and uses it, `whole` installs it.

The program under test is the package's as it stands: nothing in it is made for these tests.
"""
