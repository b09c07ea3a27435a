read -r line
print -r -- $line ${#line}
