unit sums;

interface

function sum(a, b: integer): integer;

implementation

function sum(a, b: integer): integer;
begin
  sum := a + b;
end;

end.
