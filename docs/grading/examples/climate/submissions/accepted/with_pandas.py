import sys

import matplotlib.pyplot as plt
import pandas as pd

table = pd.read_csv(sys.stdin)
for city, rows in table.groupby("city"):
    warmest = rows.loc[rows["celsius"].idxmax(), "month"]
    print(city, warmest, f"{rows['celsius'].mean():.2f}")
    plt.plot(rows["month"], rows["celsius"], label=city)
plt.ylabel("°C")
plt.legend()
plt.show()
