program fails
  print '(a)', 'before'
  error stop 'on purpose'
end program
