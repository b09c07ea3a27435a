# The teacher's program: it is put over the student's solution.py, and its output is compared.
from solution import roman

for line in open(0):
    number = int(line)
    print(number, roman(number))
