def roman(number):
    text = ""
    for value, numeral in [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]:
        text += numeral * (number // value)
        number %= value
    return text
