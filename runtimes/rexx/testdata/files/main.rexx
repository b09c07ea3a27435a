/* REXX */
total = linein("data/in.txt") + linein("data/in.txt")
call lineout "out.txt", total
say total
