"""Average two trainings of one model: python mix.py first.pt second.pt SHARE out.pt, SHARE of the second."""
import sys

import torch

first, second, share, out = sys.argv[1:]
a, b = (torch.load(path, map_location="cpu") for path in (first, second))
torch.save({k: ((1 - float(share)) * a[k].float() + float(share) * b[k].float()).half() for k in a}, out)
