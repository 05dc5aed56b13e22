"""Peak memory: a plan comes in; out goes its `Memory`: the bytes of one device, as its compiler assigns buffers."""
