"""Models that know nothing of meshlab: sizes come in; out go steps of training as users of four libraries write them.

A GPT in plain JAX, an encoder in Flax Linen that computes in bfloat16, an MLP-Mixer in Flax NNX and a decoder in
Equinox, each trained with optax in the way of its library. All that meshlab is told are the names of the inputs, and a
few globs over the paths of the parameters (`NAMES` in each module); what the optimizers keep is named by the rules.
"""
