read -r line
echo "$line ${#line}"
