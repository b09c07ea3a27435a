typeset -i sum=0
while read -r n; do sum+=n; done
print -r -- $sum $@
