import sys

import pandas as pd

for city, rows in pd.read_csv(sys.stdin).groupby("city"):
    print(city, rows.loc[rows["celsius"].idxmin(), "month"], f"{rows['celsius'].mean():.2f}")
