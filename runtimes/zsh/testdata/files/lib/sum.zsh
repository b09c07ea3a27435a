sum() {
  typeset -i total=0
  while read -r n; do total+=n; done
  print $total
}
