import csv
import sys

cities = {}
for row in csv.DictReader(sys.stdin):
    cities.setdefault(row["city"], []).append((float(row["celsius"]), row["month"]))
for city in sorted(cities):
    rows = cities[city]
    print(city, max(rows, key=lambda r: r[0])[1], f"{sum(c for c, _ in rows) / len(rows):.2f}")
