def to_roman(number):
    return "I" * number
