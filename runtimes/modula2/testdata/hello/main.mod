MODULE main;

FROM StrIO IMPORT WriteString, WriteLn;

BEGIN
  WriteString("hello, wörld");
  WriteLn
END main.
