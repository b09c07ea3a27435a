import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 6, 100)
plt.plot(x, np.sin(x))
plt.title("sine")
plt.show()

plt.plot(x, np.cos(x))
plt.title("cosine")
plt.show()
