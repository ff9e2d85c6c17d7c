"""Compares what it is told to on standard input, one JSON object a line, and answers with the facts."""

import json
import sys
import warnings


def main():
    sys.path.insert(0, sys.argv[1])
    warnings.simplefilter("ignore")
    import torch

    from bisect_torch.numerics.check import compare

    for line in sys.stdin:
        asked = json.loads(line)
        actual = torch.tensor(asked["actual"], dtype=torch.float64).to(getattr(torch, asked["dtype"]))
        reference = torch.tensor(asked["reference"], dtype=torch.float64)
        facts = compare(actual, reference, **asked["options"]).facts
        print(json.dumps({"facts": facts, "rounded": actual.double().tolist()}), flush=True)


main()
