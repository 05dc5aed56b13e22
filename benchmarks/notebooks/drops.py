# %% [markdown]
# # Two boards to drop chips on
#
# The two-layer net and the 32-layer transformer of the benchmarks, on a machine, so that every drop is costed too;
# opened by `benchmarks/dropping.py` in a browser.

# %%
import meshlab as ml
from benchmarks.planning import subjects

small, large = [ml.explore(subject.trace(), ml.lay(subject.mesh, "v5e")) for subject in subjects()[:2]]

small

# %%
large
