# Wrong in the second pass, as the word does not say which number it was.
task, text = input(), input()
print("number" if task == "write" else 1)
