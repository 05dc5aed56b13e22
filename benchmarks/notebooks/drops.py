# %% [markdown]
# # Boards to drop chips on
#
# The two-layer net of the benchmarks and Llama 3 8B, scanned and as a Python loop, on machines, so that every drop is
# costed too, a program of 10,000 steps, and a puzzle; opened in a browser by `benchmarks/dropping.py`, `holding.py` and
# `showing.py`.

# %%
import meshlab as ml
from benchmarks.planning import subjects
from meshlab import puzzles
from tests.widgets.views.test_program_steps import long_program

net, _, scanned, loop = subjects()[:4]
small = ml.explore(net.trace(), ml.lay(net.mesh, "v5e"))

small

# %%
llama = scanned.trace()
large = ml.explore(llama, ml.mesh("v5p:4x4x4", data=8, model=8), "batch:data")

large

# %%
fine = ml.explore(llama, ml.mesh("v5p:4x4x4", a=2, b=2, c=2, d=2, e=2, f=2), "batch:a")

fine

# %%
unrolled = ml.explore(loop.trace(), ml.mesh("v5p:4x4x4", data=8, model=8), "batch:data")

unrolled

# %%
long = ml.explore(long_program(), ml.mesh(x=2), "n:x")

long

# %%
puzzles.P08.predict(1)
puzzle = puzzles.P08.show()

puzzle
