"""Other machines, on which workers train as on this one: reached by ssh, prepared by uv."""
