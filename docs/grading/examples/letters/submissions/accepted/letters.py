task, text = input(), input()
if task == "write":
    print("".join(chr(ord("a") + int(digit)) for digit in text))
else:
    print("".join(str(ord(letter) - ord("a")) for letter in text))
