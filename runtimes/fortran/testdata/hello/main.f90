program hello
  print '(a)', 'hello, wörld'
end program
