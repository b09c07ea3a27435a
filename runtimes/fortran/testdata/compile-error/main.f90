program broken
  implicit none
  undeclared = 1
end program
