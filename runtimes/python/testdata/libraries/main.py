from datetime import datetime

import numpy as np
import pandas as pd
import seaborn as sns
import sympy
from dateutil.relativedelta import relativedelta
from PIL import Image
from scipy import integrate

print(np.linalg.det(np.array([[2.0, 0.0], [0.0, 3.0]])).round(6))
print(pd.Series([1, 2, 3]).mean())
print(round(integrate.quad(lambda x: x**2, 0, 3)[0], 6))
print(sympy.integrate(sympy.Symbol("x") ** 2, sympy.Symbol("x")))
print(datetime(2024, 1, 31) + relativedelta(months=1))
print(Image.new("RGB", (2, 3)).size)
print(sns.color_palette("deep", 3).as_hex()[0])
