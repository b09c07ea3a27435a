program stdin
  implicit none
  integer :: n, total = 0, status, i
  character(100) :: argument
  do
    read (*, *, iostat=status) n
    if (status /= 0) exit
    total = total + n
  end do
  write (*, '(i0)', advance='no') total
  do i = 1, command_argument_count()
    call get_command_argument(i, argument)
    write (*, '(1x, a)', advance='no') trim(argument)
  end do
  write (*, *)
end program
