"""torch.load used to unpickle any class; since the default of weights_only is True it refuses. A changed default, no bug."""

import io

import torch


class Recipe:
    def __init__(self, flour):
        self.flour = flour


stream = io.BytesIO()
torch.save(Recipe(flour=500), stream)
stream.seek(0)
again = torch.load(stream)
print(type(again).__qualname__, again.flour)
assert again.flour == 500
