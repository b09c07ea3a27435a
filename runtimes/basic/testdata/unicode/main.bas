line input "" text$
print text$, " ", len(text$)
