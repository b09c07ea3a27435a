program stdin;

var
  n, i: integer;
  sum: integer = 0;

begin
  while not eof do
  begin
    readln(n);
    sum := sum + n;
  end;
  write(sum);
  for i := 1 to ParamCount do
    write(' ', ParamStr(i));
  writeln;
end.
