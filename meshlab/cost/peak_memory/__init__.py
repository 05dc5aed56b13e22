"""Peak memory: a plan comes in; out goes its `Memory`: bytes of one device at the peak, as a compiler places them."""
