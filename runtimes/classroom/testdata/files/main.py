import os

import pandas as pd

from lib.double import double

table = pd.read_csv("data/in.csv")
table["twice"] = double(table["value"])
os.makedirs("out")
table.to_csv("out/result.csv", index=False)
print(table["twice"].sum())
