program files
  implicit none
  include 'lib/total.inc'
  integer :: a, b
  open (10, file='data/in.txt', status='old')
  read (10, *) a, b
  total = a + b
  open (11, file='out.txt')
  write (11, '(i0)') total
  print '(i0)', total
end program
