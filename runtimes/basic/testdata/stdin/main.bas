sum = 0
for i = 1 to 3
  input "" n
  sum = sum + n
next i
print sum;
for i = 1 to 2
  print " ", peek$("argument");
next i
print
