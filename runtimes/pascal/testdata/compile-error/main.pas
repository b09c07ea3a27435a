program broken;

begin
  undeclared := 1;
end.
