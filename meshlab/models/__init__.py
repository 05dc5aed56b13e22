"""Models in named dims: sizes come in; out go the steps that tests, notebooks and benchmarks share.

Each module holds a `Config` of sizes, `init(key, config)`, a `loss` and a `step`, written to be read. They name dims by
strings, so that the same function serves every size. Models are in subpackages by family, `basic`, `language`, `vision`
and `imported`; `parts` is what they are made of, and `zoo.py` lists them all, ready to be traced.

`meshlab` does not import this folder by itself: write `from meshlab.models.basic import mlp`.
"""
