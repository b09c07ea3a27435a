print before
print -u2 "on purpose"
exit 3
