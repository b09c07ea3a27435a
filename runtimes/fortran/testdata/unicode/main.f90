program unicode
  implicit none
  character(200) :: line
  read (*, '(a)') line
  print '(a, 1x, i0)', trim(line), len_trim(line)
end program
