program files;

uses
  sums in 'sums.pas';

var
  f: text;
  a, b: integer;

begin
  assign(f, 'data/in.txt');
  reset(f);
  readln(f, a);
  readln(f, b);
  close(f);
  assign(f, 'out.txt');
  rewrite(f);
  writeln(f, sum(a, b));
  close(f);
  writeln(sum(a, b));
end.
