# %% [markdown]
# # A notebook that proves the harness

# %%
from IPython.display import HTML

answer = {"six times seven": 42}
print("printed")
HTML("<p id='seen-by-the-browser'>drawn</p>")
