local line = io.read()
print(line, utf8.len(line))
