# %% [markdown]
# # Two boards to drop chips on
#
# The two-layer net and the 32-layer transformer of the benchmarks; opened by `benchmarks/dropping.py` in a browser.

# %%
import meshlab as ml
from benchmarks.planning import subjects

small, large = [ml.explore(subject.trace(), subject.mesh) for subject in subjects()]

small

# %%
large
