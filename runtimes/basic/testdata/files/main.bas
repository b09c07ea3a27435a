open 1, "data/in.txt", "r"
input #1 a
input #1 b
close 1
open 2, "out.txt", "w"
print #2 a + b
close 2
print a + b
