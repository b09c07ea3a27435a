program hello;

begin
  writeln('hello, wörld');
end.
