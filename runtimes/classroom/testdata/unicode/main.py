line = input()
print(line, len(line))
