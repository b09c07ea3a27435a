source lib/sum.tcl

set in [open data/in.txt]
set total [sum [read $in]]
set out [open out.txt w]
puts $out $total
close $out
puts $total
