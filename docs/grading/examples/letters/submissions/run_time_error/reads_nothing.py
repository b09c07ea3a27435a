# Ends with an error in the second pass, whose input it takes for another one of the first.
task, number = input(), int(input())
print("".join(chr(ord("a") + int(digit)) for digit in str(number)))
