source lib/sum.zsh
total=$(sum < data/in.txt)
print $total > out.txt
print $total
