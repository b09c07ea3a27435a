# Wrong in the first pass: digits are no letters.
input()
print(input())
