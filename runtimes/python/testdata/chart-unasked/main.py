import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.plot([1, 4, 9])
plt.savefig("saved.png")
plt.figure()
plt.bar(["a", "b"], [1, 2])
# The second figure is never saved nor shown: it is kept all the same, the first one once.
