/* REXX */
parse arg arguments
sum = 0
do 3
  parse pull n
  sum = sum + n
end
say sum arguments
