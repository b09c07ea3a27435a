MODULE main;

FROM NumberIO IMPORT ReadInt, WriteInt;
FROM StrIO IMPORT WriteLn;

VAR
  n, sum: INTEGER;
  i: CARDINAL;
BEGIN
  sum := 0;
  FOR i := 1 TO 3 DO
    ReadInt(n);
    sum := sum + n
  END;
  WriteInt(sum, 0);
  WriteLn
END main.
